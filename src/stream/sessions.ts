/**
 * Who the connections are. A session is authenticated by one token and stays so until its key is
 * revoked or expires; then the client is told, and is as unknown as any other. What it follows goes
 * on: that is public. Where a revocation may not have been heard, each key is looked up again, and sessions
 * go on if theirs is confirmed in time.
 */

import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Authenticator } from '#http/auth.ts'
import type { Principal } from '#http/route.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Connection } from './connection.ts'

export type Sessions = {
  /** Makes the connection speak for the owner of the token, or says why it does not. */
  authenticate(connection: Connection, token: string): Promise<Principal | Rejection>
  /** Who it speaks for at this moment. */
  principalOf(connection: Connection): Principal | undefined
  revoked(keyIds: readonly string[]): void
  /** Keys may have been revoked without our hearing it. */
  unheard(): void
  /** Ends the sessions whose key has expired. */
  expire(): void
  forget(connection: Connection): void
}

/** How long a session goes on with a key that may have been revoked and cannot be looked up. */
export const CONFIRM_MS_MAX = 10_000
const CONFIRM_AGAIN_MS = 250
/** Keys that are looked up at once. */
const CONFIRMED_AT_ONCE = 32

export function makeSessions(ports: {
  readonly authenticator: Pick<Authenticator, 'identify' | 'confirm'>
  readonly clock: Clock
  /** The connection was authenticated and is so no more. */
  readonly ended: (connection: Connection, why: Rejection) => void
}): Sessions {
  const { authenticator, clock } = ports
  const known = new Set<Connection>()
  /** Tokens that are being looked at, and what was revoked meanwhile. */
  let identifying = 0
  const revokedMeanwhile = new Set<string>()
  /** Keys of sessions that may have been revoked, and since which time that something may not have been heard. */
  const doubted = new Map<string, number>()
  /** How often something may not have been heard: what was looked up before that does not count. */
  let timesUnheard = 0

  function end(connection: Connection, why: Rejection): void {
    connection.principal = undefined
    known.delete(connection)
    ports.ended(connection, why)
  }

  function isExpired({ expiresAtSec }: Principal): boolean {
    return expiresAtSec !== undefined && expiresAtSec * 1_000 <= clock.nowMs()
  }

  function endKey(keyId: string, why: Rejection): void {
    doubted.delete(keyId)
    for (const connection of [...known]) {
      if (connection.principal?.keyId === keyId) end(connection, why)
    }
  }

  async function identify(token: string): Promise<Principal | Rejection> {
    identifying++
    try {
      let asOf = timesUnheard
      let principal = await authenticator.identify(`Bearer ${token}`)
      while (asOf !== timesUnheard && !isRejection(principal)) {
        asOf = timesUnheard
        principal = await authenticator.confirm(principal.keyId)
      }
      if (isRejection(principal)) return principal
      return revokedMeanwhile.has(principal.keyId) ? reject('UNAUTHORIZED_KEY_INACTIVE') : principal
    } finally {
      identifying--
      if (identifying === 0) revokedMeanwhile.clear()
    }
  }

  /** Looks up what is doubted until nothing is, or something may not have been heard again. */
  async function confirmDoubted(): Promise<void> {
    const asOf = timesUnheard
    while (doubted.size > 0 && asOf === timesUnheard) {
      const keyIds = [...doubted.keys()]
      for (let at = 0; at < keyIds.length && asOf === timesUnheard; at += CONFIRMED_AT_ONCE) {
        await Promise.all(keyIds.slice(at, at + CONFIRMED_AT_ONCE).map((id) => confirm(id, asOf)))
      }
      if (doubted.size === 0 || asOf !== timesUnheard) return
      await new Promise<void>((resolve) => void clock.after(CONFIRM_AGAIN_MS, resolve))
    }
  }

  async function confirm(keyId: string, asOf: number): Promise<void> {
    // Whatever is in the way of an answer, it is asked for again.
    const answer = await authenticator.confirm(keyId).catch(() => reject('OVERLOADED'))
    if (asOf !== timesUnheard || !doubted.has(keyId)) return
    if (!isRejection(answer)) doubted.delete(keyId)
    else if (answer.rejected !== 'OVERLOADED') endKey(keyId, answer)
  }

  /** The time of those that have been doubted since then is over. */
  function endDoubted(asOf: number): void {
    const why = 'it is not known any more whether the key is active: authenticate again'
    for (const [keyId, since] of [...doubted]) {
      if (since <= asOf) endKey(keyId, reject('UNAUTHORIZED_KEY_INACTIVE', undefined, why))
    }
  }

  return {
    async authenticate(connection, token) {
      const principal = await identify(token)
      if (isRejection(principal) || connection.ws === undefined) return principal
      doubted.delete(principal.keyId)
      connection.principal = principal
      known.add(connection)
      return principal
    },
    principalOf(connection) {
      const { principal } = connection
      if (principal === undefined || !isExpired(principal)) return principal
      end(connection, reject('UNAUTHORIZED_KEY_EXPIRED'))
      return undefined
    },
    revoked(keyIds) {
      const ids = new Set(keyIds)
      if (identifying > 0) for (const id of ids) revokedMeanwhile.add(id)
      for (const id of ids) doubted.delete(id)
      for (const connection of known) {
        if (connection.principal === undefined || !ids.has(connection.principal.keyId)) continue
        end(connection, reject('UNAUTHORIZED_KEY_INACTIVE'))
      }
    },
    unheard() {
      const asOf = ++timesUnheard
      for (const { principal } of known) {
        if (principal === undefined || doubted.has(principal.keyId)) continue
        doubted.set(principal.keyId, asOf)
      }
      if (doubted.size === 0) return
      clock.after(CONFIRM_MS_MAX, () => endDoubted(asOf))
      void confirmDoubted()
    },
    expire() {
      for (const connection of known) {
        const { principal } = connection
        if (principal === undefined || !isExpired(principal)) continue
        end(connection, reject('UNAUTHORIZED_KEY_EXPIRED'))
      }
    },
    forget: (connection) => void known.delete(connection),
  }
}
