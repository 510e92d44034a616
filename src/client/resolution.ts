/**
 * Resolution of markets: reads the status, proposes an outcome, settles it, and waits for a stage. Signed requests go
 * to the relayer, which pays the gas.
 */

import type { ResolutionStatus } from '#protocol/shapes/markets.ts'
import type { Relayed } from '#protocol/shapes/relayer.ts'
import type { ProposalIntent, Relayer, SettlementIntent } from './relayer.ts'
import { SibylError } from './sibyl-error.ts'
import type { CallOptions, Transport } from './transport.ts'

/**
 * Stages for which a caller can wait. If a dispute overturns the proposed outcome, the market returns to the stage
 * `expired`.
 */
export type ResolutionStage = 'expired' | 'proposed' | 'disputed' | 'resolved'

export type WaitOptions = Pick<CallOptions, 'signal'> & {
  /** Maximum waiting time in milliseconds; unlimited if omitted. */
  readonly waitMs?: number
  /** Interval between requests in milliseconds. */
  readonly everyMs?: number
}

export type ClientResolution = {
  status(marketId: string, options?: CallOptions): Promise<ResolutionStatus>
  /** Proposes the outcome of an expired market. */
  propose(intent: ProposalIntent, options?: CallOptions): Promise<Relayed>
  /** Settles a proposed outcome after the dispute window. */
  settle(intent: SettlementIntent, options?: CallOptions): Promise<Relayed>
  /**
   * Polls until the market has reached the stage or a later one. The stage `disputed` is different: it is reached only
   * if the proposed outcome was disputed.
   */
  waitFor(
    marketId: string,
    stage: ResolutionStage,
    options?: WaitOptions,
  ): Promise<ResolutionStatus>
}

const EVERY_MS = 500

export function createResolution(ports: {
  readonly send: Transport
  readonly relayer: Relayer
}): ClientResolution {
  const { send, relayer } = ports

  function status(marketId: string, call?: CallOptions): Promise<ResolutionStatus> {
    const path = `/api/v1/resolution/${encodeURIComponent(marketId)}`
    return send<ResolutionStatus>({ method: 'GET', path }, call)
  }

  return {
    status,
    propose: (intent, call) => relayer.proposeResolution(intent, call),
    settle: (intent, call) => relayer.settleMarket(intent, call),
    async waitFor(marketId, stage, options = {}) {
      const { waitMs, everyMs = EVERY_MS, ...call } = options
      const untilMs = waitMs === undefined ? Number.POSITIVE_INFINITY : Date.now() + waitMs
      for (;;) {
        const found = await status(marketId, call)
        if (hasReached(found, stage)) return found
        if (Date.now() + everyMs > untilMs) {
          throw new SibylError('TIMEOUT', `the market is not ${stage} after ${waitMs} ms`)
        }
        await pause(everyMs, call.signal)
      }
    },
  }
}

function hasReached(status: ResolutionStatus, stage: ResolutionStage): boolean {
  if (stage === 'expired') return status.expired
  if (stage === 'proposed') return status.resolved || status.assertion !== undefined
  if (stage === 'disputed') return status.assertion?.disputed === true
  return status.resolved
}

function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, rejected) => {
    const timer = setTimeout(done, milliseconds)
    signal?.addEventListener('abort', abort, { once: true })
    function done(): void {
      signal?.removeEventListener('abort', abort)
      resolve()
    }
    function abort(): void {
      clearTimeout(timer)
      rejected(signal?.reason)
    }
  })
}
