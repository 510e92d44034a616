/**
 * The public log of an exchange: its logs and keys, and proofs that this client verifies itself. The code that verifies
 * is loaded on first use.
 */

import type { TransparencyAnswer } from '#protocol/shapes/transparency.ts'
import { SibylError } from './sibyl-error.ts'
import { type CallOptions, type FileAnswer, pause, type Transport } from './transport.ts'
import type { VerifiedProof } from './verify-log.ts'

type PublicLog = TransparencyAnswer['logs'][number]

export type ClientTransparency = {
  /** Returns the public logs of the exchange; none if it does not publish its log. */
  logs(options?: CallOptions): Promise<PublicLog[]>
  /**
   * Requests the proof of an order and verifies it: the entry, its inclusion and the signature of the checkpoint. Waits up
   * to 5 s for the proof of a new order.
   */
  proveOrder(orderHash: string, options?: CallOptions): Promise<VerifiedProof>
  /** The same for the match of a trade. */
  proveTrade(tradeId: string, options?: CallOptions): Promise<VerifiedProof>
}

const WAIT_MS = 5_000
const POLL_MS = 250

/**
 * `logKeys` are the verifier keys that the caller trusts; without them, the keys of the exchange's first answer are
 * trusted.
 */
export function createTransparency(
  send: Transport,
  logKeys: readonly string[] | undefined,
): ClientTransparency {
  const first = new Map<string, readonly string[]>()

  async function logs(call?: CallOptions): Promise<PublicLog[]> {
    const path = '/api/v1/transparency'
    const answer = await send<TransparencyAnswer>({ method: 'GET', path }, call)
    for (const { origin, verifierKeys } of answer.logs) {
      if (!first.has(origin)) first.set(origin, verifierKeys)
    }
    return [...answer.logs]
  }

  async function proofOf(kind: 'orders' | 'trades', id: string, call: CallOptions | undefined) {
    const path = `/api/v1/${kind}/${encodeURIComponent(id)}/proof`
    const untilMs = Date.now() + WAIT_MS
    for (;;) {
      try {
        const request = { method: 'GET', path, answers: 'file' } as const
        return new TextDecoder().decode((await send<FileAnswer>(request, call)).bytes)
      } catch (error) {
        const isLate = Date.now() > untilMs || call?.signal?.aborted === true
        if (!(error instanceof SibylError) || error.code !== 'NOT_FOUND' || isLate) throw error
        await pause(POLL_MS, call?.signal)
      }
    }
  }

  async function prove(
    kind: 'orders' | 'trades',
    id: string,
    call: CallOptions | undefined,
  ): Promise<VerifiedProof> {
    const [{ verifyProof }, text] = await Promise.all([
      import('./verify-log.ts'),
      proofOf(kind, id, call),
    ])
    if (logKeys === undefined) await logs(call)
    const keys = logKeys ?? [...first.values()].flat()
    return verifyProof(text, { keys, ...(kind === 'orders' ? { orderHash: id } : { tradeId: id }) })
  }

  return {
    logs,
    proveOrder: (orderHash, call) => prove('orders', orderHash, call),
    proveTrade: (tradeId, call) => prove('trades', tradeId, call),
  }
}
