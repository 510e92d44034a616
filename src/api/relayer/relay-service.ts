/**
 * The front's interface to the relayer: finds the chain of an operation, checks the rules that need no data
 * from the chain, and sends the operation to the relayer thread of that chain.
 */

import { createHash } from 'node:crypto'
import type { Address } from '#domain/ids.ts'
import type { Order } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { RelayKey, RelayOperation } from '#domain/relay.ts'
import { type RelayTerms, relayFlaw } from '#domain/relay-rules.ts'
import type { RelayAnswer, RelayerRequests, RelayNonces } from '#protocol/relayer.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Ref } from '#runtime/ref.ts'

export type RelayService = {
  relay(operation: RelayOperation, deadlineAtMs: number): Promise<RelayAnswer | Rejection>
  nonces(
    asked: {
      readonly chainId: number
      readonly owner: Address
      readonly marketAddress: Address | undefined
    },
    deadlineAtMs: number,
  ): Promise<RelayNonces | Rejection>
}

/** A chain with a relayer. */
type RelayedChain = {
  readonly chainId: number
  readonly terms: RelayTerms
  readonly relayer: Ref<RelayerRequests>
}

const NO_RELAYER = reject('INVALID_FIELD', 'chainId', 'No relayer configured for chain')

export function makeRelayService(ports: {
  readonly chains: readonly RelayedChain[]
  readonly nowMs: () => number
}): RelayService {
  const { nowMs } = ports
  const chains = new Map(ports.chains.map((chain) => [chain.chainId, chain]))
  return {
    async relay(operation, deadlineAtMs) {
      const chain = chains.get(operation.chainId)
      if (chain === undefined) return NO_RELAYER
      const flaw = relayFlaw(operation, chain.terms, Math.floor(nowMs() / 1_000))
      if (flaw !== undefined) return flaw
      if (!chain.relayer.isOpen) return away(chain)
      const key = relayKey(operation)
      const leftMs = Math.max(1, deadlineAtMs - nowMs())
      const answer = await chain.relayer.ask('Relay', { key, operation, deadlineAtMs }, leftMs)
      if (!isUnanswered(answer)) return answer
      // If `unanswered` is `full`, the relayer thread did not receive the request. Otherwise the thread may have sent
      // the operation to the chain. If the client repeats the request, it gets the same transaction.
      return reject(answer.unanswered === 'full' ? 'OVERLOADED' : 'OUTCOME_UNKNOWN')
    },
    async nonces({ chainId, owner, marketAddress }, deadlineAtMs) {
      const chain = chains.get(chainId)
      if (chain === undefined) return NO_RELAYER
      const leftMs = Math.max(1, deadlineAtMs - nowMs())
      const answer = await chain.relayer.ask('Nonces', { owner, marketAddress }, leftMs)
      if (!isUnanswered(answer)) return answer
      return answer.unanswered === 'closed' ? away(chain) : reject('OVERLOADED')
    },
  }
}

/**
 * Returns the rejection for a chain whose relayer thread has died or does not start. The rejected operation was not
 * sent to the thread. The client can retry, because the supervisor restarts the thread.
 */
function away({ chainId }: RelayedChain): Rejection {
  const detail = `the relayer of chain ${chainId} is restarting: retry shortly`
  return reject('PART_UNAVAILABLE', undefined, detail)
}

/**
 * Returns the key of a signed request: a hash of its signed fields in a fixed order. A repeated request has the same
 * key, even if its unsigned fields differ. Different operations have different keys.
 */
function relayKey(operation: RelayOperation): RelayKey {
  const { kind, chainId, owner } = operation
  const said = [kind, chainId, owner, ...signedParts(operation)]
  return `0x${createHash('sha256').update(JSON.stringify(said)).digest('hex')}`
}

function signedParts(operation: RelayOperation): unknown[] {
  if (operation.kind === 'batch-ctf-redemption') return operation.redemptions.map(redemptionParts)
  const { deadline, v, r, s } = operation
  const signature = [deadline, v, r, s]
  switch (operation.kind) {
    case 'ctf-approval':
      return [operation.operator, operation.approved, ...signature]
    case 'stablecoin-permit':
      return [operation.spender, operation.value, ...signature]
    case 'ctf-redemption':
      return redemptionParts(operation)
    case 'propose-resolution':
      return [operation.marketAddress, operation.outcome, ...signature]
    case 'settle-market':
      return [operation.marketAddress, operation.winningOutcome, ...signature]
    case 'cancel-orders':
      return [operation.orders.map(orderParts), ...signature]
    case 'cancel-all-before':
      return [operation.nonce, ...signature]
    case 'set-delegate': {
      const { delegate, until, maxOrderSize, maxOpenNotional, markets } = operation
      return [delegate, until, maxOrderSize, maxOpenNotional, markets, ...signature]
    }
  }
}

function orderParts(order: Order): unknown[] {
  const { marketId, side, outcome, price, size, nonce, expiration, makerFeeRecipient } = order
  return [marketId, side, outcome, price, size, nonce, expiration, makerFeeRecipient]
}

function redemptionParts(
  redemption: Extract<RelayOperation, { kind: 'batch-ctf-redemption' }>['redemptions'][number],
): unknown[] {
  const { collateralToken, parentCollectionId, conditionId, indexSets } = redemption
  const { deadline, v, r, s } = redemption
  return [collateralToken, parentCollectionId, conditionId, indexSets, deadline, v, r, s]
}
