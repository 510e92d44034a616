/**
 * Logs errors without one line per request. The first error of a kind is logged immediately. Its repetitions are logged
 * at most once per interval, with their number.
 */

import type { Clock } from '#runtime/clock.ts'

const EVERY_MS = 5_000
/** Maximum number of kinds that are counted separately. Errors of all further kinds are counted together. */
const KINDS_MAX = 100

type RepeatedErrors = {
  /** Logs an error with `fields`. Equal errors of two routes are two kinds. */
  tell(
    error: unknown,
    fields: { readonly route?: string; readonly [field: string]: unknown },
    message: string,
  ): void
}

type Kind = { loggedAtMs: number; unlogged: number }

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
    for (const [each, { loggedAtMs, unlogged }] of kinds) {
      if (kinds.size < KINDS_MAX) break
      if (unlogged === 0 && nowMs - loggedAtMs >= EVERY_MS) kinds.delete(each)
    }
    const slot = kinds.size < KINDS_MAX ? name : ''
    const kind = kinds.get(slot) ?? { loggedAtMs: Number.NEGATIVE_INFINITY, unlogged: 0 }
    kinds.set(slot, kind)
    return kind
  }

  return {
    tell(error, fields, message) {
      const kind = kindOf(error, `${fields.route ?? ''} ${message}`)
      const nowMs = clock.nowMs()
      if (nowMs - kind.loggedAtMs < EVERY_MS) {
        kind.unlogged++
        return
      }
      const repeated = kind.unlogged === 0 ? {} : { moreLikeIt: kind.unlogged }
      kind.loggedAtMs = nowMs
      kind.unlogged = 0
      log.error({ ...fields, ...repeated, err: error }, message)
    },
  }
}
