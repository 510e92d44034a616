/** The stablecoin: balances, allowances, permits. Any ERC-20 with ERC-2612 and six decimals. */

import type { Hex } from 'viem'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import type { Address } from '#domain/ids.ts'
import { type Call, callOf, hexAddress } from './call.ts'
import { asked, type ChainClient } from './clients.ts'
import type { SignatureParts } from './conditional-tokens.ts'

type Stablecoin = {
  readonly address: Address
  balanceOf(owner: Address): Promise<bigint>
  allowance(owner: Address, spender: Address): Promise<bigint>
  nonce(owner: Address): Promise<bigint>
  decimals(): Promise<number>
  /** Returns name and version of its EIP-712 domain, read from the token. */
  domain(): Promise<{ name: string; version: string }>
  approveCall(spender: Address, value: bigint): Call
  transferCall(to: Address, value: bigint): Call
  permitCall(
    permit: { owner: Address; spender: Address; value: bigint; deadline: bigint },
    signature: SignatureParts,
  ): Call
  /** Only the token's owner may mint; on the devnet that is one of its accounts. */
  mintCall(to: Address, value: bigint): Call
}

export function stablecoin(client: ChainClient, address: Address): Stablecoin {
  const contract = { address: hexAddress(address), abi: testUSDCAbi } as const
  const { viem } = client
  return {
    address,
    balanceOf: (owner) =>
      asked(
        viem.readContract({ ...contract, functionName: 'balanceOf', args: [hexAddress(owner)] }),
      ),
    allowance: (owner, spender) =>
      asked(
        viem.readContract({
          ...contract,
          functionName: 'allowance',
          args: [hexAddress(owner), hexAddress(spender)],
        }),
      ),
    nonce: (owner) =>
      asked(viem.readContract({ ...contract, functionName: 'nonces', args: [hexAddress(owner)] })),
    decimals: () => asked(viem.readContract({ ...contract, functionName: 'decimals' })),
    async domain() {
      const [, name, version] = await asked(
        viem.readContract({ ...contract, functionName: 'eip712Domain' }),
      )
      return { name, version }
    },
    approveCall: (spender, value) =>
      callOf(address, testUSDCAbi, 'approve', [hexAddress(spender), value]),
    transferCall: (to, value) => callOf(address, testUSDCAbi, 'transfer', [hexAddress(to), value]),
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
    mintCall: (to, value) => callOf(address, testUSDCAbi, 'mint', [hexAddress(to), value]),
  }
}
