/**
 * Reads the chain's history for the relayer from the index. If the index does not have the transaction that
 * resolved a market yet, reads the chain's own log.
 */

import type { ChainClient } from '#chain/clients.ts'
import type { Settings } from '#config/settings-schema.ts'
import { contractsOf } from '#config/thread-data.ts'
import type { Query } from '#store/reads/queries.ts'
import { isGrantedBy } from '../chain/granted-by.ts'
import type { RelayExaminerOptions } from '../chain/relay-options.ts'
import { resolvedBy } from '../chain/resolved-by.ts'

type RelayIndex = Pick<
  RelayExaminerOptions,
  'marketAddressOf' | 'tokensHeldBy' | 'grantedBy' | 'redeemedBy' | 'resolvedBy'
>

export function relayIndex(
  chain: Settings['chains'][number],
  query: Query,
  client: ChainClient,
): RelayIndex {
  const { chainId } = chain
  const contracts = contractsOf(chain)
  return {
    async marketAddressOf(marketId) {
      const market = await query('chainMarketById', { marketId })
      return market?.chainId === chainId ? market.contractAddress : undefined
    },
    async tokensHeldBy(holder) {
      return BigInt(await query('tokensHeldBy', { holder, chainId }))
    },
    async grantedBy(operation) {
      const { owner, kind } = operation
      const [newest] = await query('confirmedRelaysOf', { chainId, owner, kind, limit: 1 })
      if (newest === undefined) return undefined
      return (await isGrantedBy(client, contracts, operation, newest)) ? newest : undefined
    },
    redeemedBy: (userAddress, marketId) =>
      query('redemptionOf', { chainId, userAddress, marketId }),
    async resolvedBy(market) {
      const known = await query('chainMarketsByContract', { contractAddress: market })
      const indexed = known.find((one) => one.chainId === chainId)?.resolvedTx
      // Falls back to the chain's own log, because the index is a few blocks behind.
      return indexed ?? resolvedBy(client, market, chain.startBlock)
    },
  }
}
