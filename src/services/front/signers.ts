/**
 * Builds the checks of signatures that were not made by the trader's own key, but by a delegate or a contract
 * account.
 */

import { makeOrderSigners, type OrderSigners } from '#api/orders/order-signers.ts'
import type { Log } from '#config/logging.ts'
import type { Settings } from '#config/settings-schema.ts'
import { chainBudgetMs, contractsOf } from '#config/thread-data.ts'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { lazily } from '#http/lazily.ts'
import type { Asker, ContractSignatureLimit } from '#http/limits.ts'
import { type ContractSignatures, makeContractSignatures } from '#live/contract-signatures.ts'
import { type Delegates, makeDelegates } from '#live/delegates.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Query } from '#store/reads/queries.ts'
import { askWrite, type WriteQueueRef } from '#store/writes/ask-write.ts'
import { portableKeccak } from '#verify/keccak.ts'
import { personalHash } from '#verify/personal-hash.ts'

/** Pattern of a signature by a key: 65 bytes, of which the last (the recovery id `v`) is 0, 1, 27 or 28. */
const SIGNATURE = /^0x[0-9a-f]{128}(00|01|1b|1c)$/i
/** Maximum time of a query to a contract account: one attempt at one Ethereum node. */
const ASK_MS_MAX = 2_000
/** Maximum time for recording or releasing a delegate's order in the database. */
const RESERVE_MS_MAX = 3_000

type Signing = {
  readonly signers: OrderSigners
  readonly delegates: Delegates
  readonly contracts: ContractSignatures
  readonly contractSigned: ContractSigned
}

type ContractSigned = (
  signed: { readonly message: string; readonly address: Address; readonly signature: string },
  asker: Asker,
) => Promise<boolean | Rejection>

export function openSigners(
  settings: Settings,
  ports: {
    readonly chainIds: Iterable<number>
    readonly query: Query
    readonly store: WriteQueueRef
    readonly clock: Clock
    readonly log: Log
    readonly limit: ContractSignatureLimit | undefined
  },
): Signing {
  const { query, store, clock, log } = ports
  const delegates = makeDelegates({
    chainIds: ports.chainIds,
    delegators: (chainId, limit) => query('delegators', { chainId, limit }),
    delegationsOf: (asked) => query('delegationsOf', asked),
    nowMs: clock.nowMs,
    after: (ms, then) => void setTimeout(then, ms).unref(),
  })
  const askers = chainAskers(settings)
  const contracts = makeContractSignatures({
    chainIds: [...askers.keys()],
    ask: async (question) => (await askers.get(question.chainId)?.())?.accepts(question) ?? false,
    hasCode: async ({ chainId, account }) =>
      (await askers.get(chainId)?.())?.hasCode(account) ?? false,
    limit: ports.limit,
  })
  const signers = makeOrderSigners({
    ...{ delegates, contracts, clock },
    delegated: {
      reserve: (order) => recorded(askWrite(store, 'reserveDelegated', order, RESERVE_MS_MAX)),
      check: (order) => recorded(query('checkDelegated', order)),
      release(orderHash) {
        askWrite(store, 'releaseDelegated', { orderHash }, RESERVE_MS_MAX).catch((error: unknown) =>
          log.debug(
            { err: error },
            'the amount that was reserved for a delegate’s rejected order could not be released',
          ),
        )
      },
    },
  })
  const contractSigned: ContractSigned = async ({ message, address, signature }, asker) => {
    if (!SIGNATURE.test(signature)) return false
    const hash = personalHash(message, portableKeccak.keccak256)
    const asked = { account: address, digest: `0x${Buffer.from(hash).toString('hex')}`, signature }
    return contracts.acceptEverywhere(asked, asker)
  }
  return { signers, delegates, contracts, contractSigned }
}

/** Returns the answer of the database, or a rejection if the database does not answer. */
async function recorded<Answer>(answer: Promise<Answer>): Promise<Answer | Rejection> {
  try {
    return await answer
  } catch (error) {
    if (!(error instanceof Fault)) throw error
    const detail = 'the exchange cannot record orders of delegates now: retry with the same order'
    return reject('OVERLOADED', undefined, detail)
  }
}

type ChainAsker = {
  accepts(question: Parameters<ContractSignatures['acceptEverywhere']>[0]): Promise<boolean>
  hasCode(account: Address): Promise<boolean>
}

/**
 * Returns, by chain id, a function that opens the client for queries to contract accounts. Chains without an
 * Ethereum node have no such function.
 */
function chainAskers(settings: Settings): Map<number, () => Promise<ChainAsker>> {
  const askers = new Map<number, () => Promise<ChainAsker>>()
  for (const chain of settings.chains) {
    const { chainId, rpcUrls } = chain
    if (rpcUrls.length === 0) continue
    const { settlement } = contractsOf(chain)
    // Chain libraries are a fifth of the code of a front, so they are loaded with the first query.
    const open = lazily(async (): Promise<ChainAsker> => {
      const { makeChainClient } = await import('#chain/clients.ts')
      const { acceptsSignature, hasCode } = await import('#chain/delegates-contract.ts')
      const budgetMs = Math.min(ASK_MS_MAX, chainBudgetMs(settings))
      const client = makeChainClient({ chainId, rpcUrls, budgetMs, timeoutMs: ASK_MS_MAX })
      return {
        accepts: (question) => acceptsSignature(client, settlement, question),
        hasCode: (account) => hasCode(client, account),
      }
    })
    askers.set(chainId, open)
  }
  return askers
}
