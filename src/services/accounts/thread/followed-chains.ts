/** The chains that an accounts thread follows for funds. */

import { type SettlementContract, settlementContract } from '#chain/settlement-contract.ts'
import type { Settings } from '#config/settings-schema.ts'
import { contractsOf } from '#config/thread-data.ts'
import type { Adapters } from '#services/kit/world.ts'
import { makeFundsChain } from '../chain/funds-chain.ts'
import type { AccountsPorts } from '../state.ts'

const RPC_TIMEOUT_MS = 3_000

type FollowedChain = {
  readonly port: ReturnType<typeof makeFundsChain>
  readonly contract: SettlementContract
}

type ChainPorts = Pick<AccountsPorts, 'chains' | 'tradeKeyOf' | 'areSettled'>

export function followChains(
  { chains }: Pick<Settings, 'chains'>,
  world: Pick<Adapters, 'makeChainClient'>,
  unanswered: (chainId: number, trouble: { readonly host: string; readonly why: string }) => void,
): ChainPorts {
  const followed = new Map<number, FollowedChain>()

  function chainOf(chainId: number): FollowedChain {
    const chain = followed.get(chainId)
    if (chain === undefined) throw new Error(`chain ${chainId} is not a chain of this exchange`)
    return chain
  }

  function follow(chain: (typeof chains)[number]): FollowedChain['port'] {
    const { chainId, rpcUrls } = chain
    const client = world.makeChainClient({
      chainId,
      rpcUrls,
      timeoutMs: RPC_TIMEOUT_MS,
      onError: (trouble) => unanswered(chainId, trouble),
    })
    const port = makeFundsChain({ client, contracts: contractsOf(chain) })
    const contract = settlementContract(client, contractsOf(chain).settlement)
    followed.set(chainId, { port, contract })
    return port
  }

  return {
    chains: chains.filter(({ rpcUrls }) => rpcUrls.length > 0).map(follow),
    tradeKeyOf: (chainId, trade) => chainOf(chainId).contract.tradeKeyOf(trade),
    areSettled: (chainId, trades, at) => chainOf(chainId).port.settledOf(trades, at),
  }
}
