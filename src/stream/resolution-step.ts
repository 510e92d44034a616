/** Translates a chain event for the `market` channel of the stream. */

import type { ChainEvent } from '#domain/chain-event.ts'
import { checksumAddress } from '#domain/checksum-address.ts'
import type { MarketId } from '#domain/ids.ts'
import type { ResolutionEventName } from '#domain/market.ts'
import { YES } from '#domain/order.ts'
import type { ResolutionFacts } from './resolution-update.ts'

type ShownStep = {
  readonly marketId: MarketId
  readonly event: ResolutionEventName
  readonly facts: ResolutionFacts
}

const STEPS = {
  ResolutionDisputed: 'disputed',
  ResolutionOverturned: 'overturned',
  ResolutionAbandoned: 'abandoned',
} as const

/** Returns the resolution step that a chain event reports; undefined for any other event. */
export function resolutionStep(event: ChainEvent): ShownStep | undefined {
  const { txHash, blockNumber } = event
  const at = { txHash, blockNumber }
  switch (event.type) {
    case 'ResolutionProposed': {
      const { marketId, assertionId, assertedAtSec, windowEndsAtSec } = event
      return {
        marketId,
        event: 'proposed',
        facts: {
          assertionId,
          proposer: checksumAddress(event.proposer),
          proposedOutcome: event.outcome === YES,
          bondAmount: String(event.bond),
          assertionTime: assertedAtSec,
          expirationTime: windowEndsAtSec,
          ...at,
        },
      }
    }
    case 'ResolutionDisputed':
    case 'ResolutionOverturned':
    case 'ResolutionAbandoned': {
      const { marketId, assertionId } = event
      return { marketId, event: STEPS[event.type], facts: { assertionId, ...at } }
    }
    case 'MarketResolved': {
      const { marketId, assertionId, winningOutcome } = event
      const asserted = assertionId === '' ? {} : { assertionId }
      return { marketId, event: 'resolved', facts: { ...asserted, winningOutcome, ...at } }
    }
    default:
      return undefined
  }
}
