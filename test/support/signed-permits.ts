/** Permits of the devnet's stablecoin for its settlement contract, including invalid ones. */

import { parseSignature } from 'viem'
import { accountOf } from '#client/local-key.ts'
import type { PermitInput } from '#client/order-submission.ts'
import { devnet } from '#config/devnet.ts'
import { stablecoinOf } from '#config/thread-data.ts'
import { PERMIT_TYPES, stablecoinDomain } from '#domain/typed-data.ts'
import { DEVNET, type TestTrader } from './signed-orders.ts'

const [chain] = devnet.chains ?? []
if (chain === undefined) throw new Error('the devnet has a chain')
const STABLECOIN = stablecoinOf(chain)

type PermitTerms = {
  readonly nonce?: bigint | number
  readonly value?: bigint
  readonly deadline?: number
  readonly spender?: string
}

/** Signs a permit: by default it has no limit, and is valid for longer than any order of the tests. */
export async function signedPermit(
  trader: TestTrader,
  { nonce = 0n, value = 2n ** 256n - 1n, deadline = 2_000_000_000, spender }: PermitTerms = {},
): Promise<PermitInput> {
  const account = accountOf(trader.key)
  const signature = await account.signTypedData({
    domain: stablecoinDomain(DEVNET.chainId, STABLECOIN),
    types: PERMIT_TYPES,
    primaryType: 'Permit',
    message: {
      owner: account.address,
      spender: (spender ?? DEVNET.verifyingContract) as `0x${string}`,
      value,
      nonce: BigInt(nonce),
      deadline: BigInt(deadline),
    },
  })
  const { r, s, yParity } = parseSignature(signature)
  return { nonce: String(nonce), value: String(value), deadline, v: 27 + yParity, r, s }
}
