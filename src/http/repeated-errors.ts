/**
 * Logs errors without one line per request: the first of a kind at once, repetitions once per interval with their
 * number.
 */

import type { Clock } from '#runtime/clock.ts'

const EVERY_MS = 5_000
/** Maximum number of kinds that are counted separately; all further errors are one kind. */
const KINDS_MAX = 100

type RepeatedErrors = {
  /** Logs an error with `fields`; errors of two routes are two kinds. */
  tell(
    error: unknown,
    fields: { readonly route?: string; readonly [field: string]: unknown },
    message: string,
  ): void
}

type Kind = { toldAtMs: number; untold: number }

export function makeRepeatedErrors(
  log: { error(fields: object, message: string): void },
  clock: Clock,
): RepeatedErrors {
  const kinds = new Map<string, Kind>()

  function kindOf(error: unknown, where: string): Kind {
    const name = error instanceof Error ? `${where} ${error.name} ${error.message}` : where
    const known = kinds.get(name)
    if (known !== undefined) return known
    const nowMs = clock.nowMs()
    for (const [each, { toldAtMs, untold }] of kinds) {
      if (kinds.size < KINDS_MAX) break
      if (untold === 0 && nowMs - toldAtMs >= EVERY_MS) kinds.delete(each)
    }
    const slot = kinds.size < KINDS_MAX ? name : ''
    const kind = kinds.get(slot) ?? { toldAtMs: Number.NEGATIVE_INFINITY, untold: 0 }
    kinds.set(slot, kind)
    return kind
  }

  return {
    tell(error, fields, message) {
      const kind = kindOf(error, `${fields.route ?? ''} ${message}`)
      const nowMs = clock.nowMs()
      if (nowMs - kind.toldAtMs < EVERY_MS) {
        kind.untold++
        return
      }
      const repeated = kind.untold === 0 ? {} : { moreLikeIt: kind.untold }
      kind.toldAtMs = nowMs
      kind.untold = 0
      log.error({ ...fields, ...repeated, err: error }, message)
    },
  }
}
