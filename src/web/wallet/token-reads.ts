/** Reads the account's balance and permissions directly from the chain, through an Ethereum provider. */

import type { ChainConfig } from '#protocol/shapes/config.ts'
import type { Provider } from './provider.ts'

/** Function selectors: the first four bytes of the hash of each function's signature. */
const BALANCE_OF = '70a08231'
const ALLOWANCE = 'dd62ed3e'
const IS_APPROVED_FOR_ALL = 'e985e9c5'

export type ChainFunds = {
  /** Stablecoin, in millionths. */
  readonly stablecoin: bigint
  /** Amount of stablecoin that the exchange may take. */
  readonly allowance: bigint
  /** True if the exchange may move outcome tokens. */
  readonly sharesApproved: boolean
}

export async function readFunds(
  provider: Provider,
  { contracts }: ChainConfig,
  owner: string,
): Promise<ChainFunds> {
  const { stablecoin, conditionalTokens, settlement } = contracts
  const [balance, allowance, approved] = await Promise.all([
    call(provider, stablecoin, BALANCE_OF, [owner]),
    readAllowance(provider, contracts, owner, settlement),
    call(provider, conditionalTokens, IS_APPROVED_FOR_ALL, [owner, settlement]),
  ])
  return { stablecoin: balance, allowance, sharesApproved: approved !== 0n }
}

/** Returns how much of an owner's stablecoin a contract may take. */
export function readAllowance(
  provider: Provider,
  { stablecoin }: ChainConfig['contracts'],
  owner: string,
  spender: string,
): Promise<bigint> {
  return call(provider, stablecoin, ALLOWANCE, [owner, spender])
}

async function call(
  provider: Provider,
  to: string,
  selector: string,
  addresses: readonly string[],
): Promise<bigint> {
  const words = addresses.map((address) => address.slice(2).toLowerCase().padStart(64, '0'))
  const data = `0x${selector}${words.join('')}`
  const answer = await provider.request({ method: 'eth_call', params: [{ to, data }, 'latest'] })
  if (typeof answer !== 'string' || !/^0x[0-9a-fA-F]{64}$/.test(answer)) {
    throw new Error(
      'the wallet uses another chain than the exchange: switch the chain in the wallet',
    )
  }
  return BigInt(answer)
}
