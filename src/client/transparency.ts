/**
 * Functions for an exchange's public logs: they return the logs and their keys, and proofs that this client
 * verifies itself. The code that verifies is loaded on first use.
 */

import type { TransparencyAnswer } from '#protocol/shapes/transparency.ts'
import { SibylError } from './sibyl-error.ts'
import { type CallOptions, type FileAnswer, pause, type Transport } from './transport.ts'
import type { VerifiedProof } from './verify-log.ts'

type PublicLog = TransparencyAnswer['logs'][number]

export type ClientTransparency = {
  /** Returns the public logs of the exchange; empty if the exchange does not publish its log. */
  logs(options?: CallOptions): Promise<PublicLog[]>
  /**
   * Requests and verifies the proof of an order: the entry, its inclusion, and the signature of the checkpoint. Also
   * verifies that the log has only grown since the previous proof. Waits up to 5 s for the proof of a new order.
   */
  proveOrder(orderHash: string, options?: CallOptions): Promise<VerifiedProof>
  /** Requests the proof of the match of a trade, and verifies it like the proof of an order. */
  proveTrade(tradeId: string, options?: CallOptions): Promise<VerifiedProof>
}

/** Returns a log's origin without the partition. */
function familyOf(origin: string): string {
  return origin.slice(0, origin.lastIndexOf('/'))
}

const WAIT_MS = 5_000
const POLL_MS = 250

/**
 * Creates the functions for the public log. If `logKeys` is undefined, the client trusts the first verifier
 * keys that the exchange returns for each log.
 */
export function createTransparency(
  send: Transport,
  logKeys: readonly string[] | undefined,
): ClientTransparency {
  const first = new Map<string, readonly string[]>()
  /** The newest verified checkpoint of each log. */
  const newest = new Map<string, { readonly size: number; readonly checkpoint: string }>()

  async function logs(call?: CallOptions): Promise<PublicLog[]> {
    const path = '/api/v1/transparency'
    const answer = await send<TransparencyAnswer>({ method: 'GET', path }, call)
    // The origins of an exchange's logs differ only in the partition. If an exchange starts new logs, they get other
    // origins. So a difference in another part of the origin means that the logs were replaced.
    const [known] = first.keys()
    for (const { origin, verifierKeys } of answer.logs) {
      if (logKeys === undefined && known !== undefined && familyOf(known) !== familyOf(origin)) {
        throw new SibylError(
          'INVALID_PROOF',
          `the exchange has replaced its logs: it lists the log ${origin} now, but listed ` +
            `${known} before`,
        )
      }
      if (!first.has(origin)) first.set(origin, verifierKeys)
    }
    return [...answer.logs]
  }

  async function fileAt(path: string, call: CallOptions | undefined): Promise<Uint8Array> {
    return (await send<FileAnswer>({ method: 'GET', path, answers: 'file' }, call)).bytes
  }

  /** Verifies that the checkpoint of a proof is consistent with the newest checkpoint verified before. */
  async function followed(
    proven: VerifiedProof,
    keys: readonly string[],
    call: CallOptions | undefined,
  ): Promise<VerifiedProof> {
    const { origin, size, checkpoint } = proven
    const before = newest.get(origin)
    if (before !== undefined && before.checkpoint !== checkpoint) {
      const { verifyGrowth } = await import('./verify-log.ts')
      const path = (await logs(call)).find((log) => log.origin === origin)?.path
      const get = async (file: string): Promise<Uint8Array | undefined> => {
        try {
          return await fileAt(`${path}/${file}`, call)
        } catch (error) {
          if (error instanceof SibylError && error.code === 'NOT_FOUND') return undefined
          throw error
        }
      }
      await verifyGrowth(before.checkpoint, checkpoint, { keys, get })
    }
    if (before === undefined || size > before.size) newest.set(origin, { size, checkpoint })
    return proven
  }

  async function proofOf(kind: 'orders' | 'trades', id: string, call: CallOptions | undefined) {
    const path = `/api/v1/${kind}/${encodeURIComponent(id)}/proof`
    const untilMs = Date.now() + WAIT_MS
    for (;;) {
      try {
        return new TextDecoder().decode(await fileAt(path, call))
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
    const named = kind === 'orders' ? { orderHash: id } : { tradeId: id }
    return followed(verifyProof(text, { keys, ...named }), keys, call)
  }

  return {
    logs,
    proveOrder: (orderHash, call) => prove('orders', orderHash, call),
    proveTrade: (tradeId, call) => prove('trades', tradeId, call),
  }
}
