/** Nonces and permits of the stablecoin, which must be an ERC-20 with ERC-2612 and six decimals. */

import type { Hex } from 'viem'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import type { Address } from '#domain/ids.ts'
import { type Call, callOf, hexAddress, readerOf } from './call.ts'
import type { ChainClient } from './clients.ts'
import type { SignatureParts } from './conditional-tokens.ts'

type Stablecoin = {
  nonce(owner: Address): Promise<bigint>
  permitCall(
    permit: { owner: Address; spender: Address; value: bigint; deadline: bigint },
    signature: SignatureParts,
  ): Call
}

export function stablecoin(client: ChainClient, address: Address): Stablecoin {
  const read = readerOf(client, address, testUSDCAbi)
  return {
    nonce: (owner) => read('nonces', [hexAddress(owner)]),
    permitCall: ({ owner, spender, value, deadline }, { v, r, s }) =>
      callOf(address, testUSDCAbi, 'permit', [
        hexAddress(owner),
        hexAddress(spender),
        value,
        deadline,
        v,
        r as Hex,
        s as Hex,
      ]),
  }
}
