/**
 * Authentication of connections. A session is authenticated by one token until the key of the token is revoked or
 * expires. Then the client is notified, and its session is anonymous again. Its public subscriptions continue. If
 * revocations may have been missed, each key is looked up again. A session whose key cannot be confirmed within 10 s
 * becomes anonymous, too.
 */

import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Authenticator } from '#http/auth.ts'
import type { Principal } from '#http/route.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Connection } from './connection.ts'

export type Sessions = {
  /** Authenticates the connection as the owner of the token. Rejects an invalid token. */
  authenticate(connection: Connection, token: string): Promise<Principal | Rejection>
  /** Returns the connection's current identity; undefined if the connection is not authenticated. */
  principalOf(connection: Connection): Principal | undefined
  revoked(keyIds: readonly string[]): void
  /** Looks up the keys of all sessions again. Called when revocations may have been missed. */
  mayHaveMissed(): void
  /** Ends the authentication of sessions whose key has expired. */
  expire(): void
  forget(connection: Connection): void
}

/** If a key may have been revoked and cannot be looked up, its sessions remain authenticated for at most this time. */
export const CONFIRM_MS_MAX = 10_000
const CONFIRM_AGAIN_MS = 250
/** Maximum number of concurrent key look-ups. */
const CONFIRMED_AT_ONCE = 32

/**
 * Tracks keys whose revocation may have been missed, and looks up each of them again. If no look-up of a key
 * succeeds within `CONFIRM_MS_MAX`, all connections with the key become anonymous.
 */
function makeDoubts(ports: {
  readonly authenticator: Pick<Authenticator, 'confirm'>
  readonly clock: Clock
  readonly endKey: (keyId: string, why: Rejection) => void
}) {
  const { authenticator, clock } = ports
  /** Keys whose revocation may have been missed, each with the value of `timesMissed` at that time. */
  const doubted = new Map<string, number>()
  /**
   * Number of times that revocations may have been missed. A look-up that began before the latest increase is ignored,
   * because its result may be outdated.
   */
  let timesMissed = 0

  function end(keyId: string, why: Rejection): void {
    doubted.delete(keyId)
    ports.endKey(keyId, why)
  }

  /**
   * Looks up all doubtful keys until none is left. Stops if revocations may have been missed again, because another run
   * then starts.
   */
  async function confirmDoubted(): Promise<void> {
    const asOf = timesMissed
    while (doubted.size > 0 && asOf === timesMissed) {
      const keyIds = [...doubted.keys()]
      for (let at = 0; at < keyIds.length && asOf === timesMissed; at += CONFIRMED_AT_ONCE) {
        await Promise.all(keyIds.slice(at, at + CONFIRMED_AT_ONCE).map((id) => confirm(id, asOf)))
      }
      if (doubted.size === 0 || asOf !== timesMissed) return
      await new Promise<void>((resolve) => void clock.after(CONFIRM_AGAIN_MS, resolve))
    }
  }

  async function confirm(keyId: string, asOf: number): Promise<void> {
    // After any failure, the look-up is retried.
    const answer = await authenticator.confirm(keyId).catch(() => reject('OVERLOADED'))
    if (asOf !== timesMissed || !doubted.has(keyId)) return
    if (!isRejection(answer)) doubted.delete(keyId)
    else if (answer.rejected !== 'OVERLOADED') end(keyId, answer)
  }

  /**
   * Ends the authentication of connections whose API key is still doubtful. Keys that became doubtful later than `asOf`,
   * which is a value of `timesMissed`, are skipped.
   */
  function endDoubted(asOf: number): void {
    const why = 'the server could not check the API key of this connection: authenticate again'
    for (const [keyId, since] of [...doubted]) {
      if (since <= asOf) end(keyId, reject('UNAUTHORIZED_KEY_INACTIVE', undefined, why))
    }
  }

  return {
    times: () => timesMissed,
    cleared: (keyId: string): void => void doubted.delete(keyId),
    mayHaveMissed(keyIds: readonly string[]): void {
      const asOf = ++timesMissed
      for (const keyId of keyIds) if (!doubted.has(keyId)) doubted.set(keyId, asOf)
      if (doubted.size === 0) return
      clock.after(CONFIRM_MS_MAX, () => endDoubted(asOf))
      void confirmDoubted()
    },
  }
}

export function makeSessions(ports: {
  readonly authenticator: Pick<Authenticator, 'identify' | 'confirm'>
  readonly clock: Clock
  /** Called when the connection is no longer authenticated. */
  readonly ended: (connection: Connection, why: Rejection) => void
}): Sessions {
  const { authenticator, clock } = ports
  const known = new Set<Connection>()
  /**
   * Number of tokens that are being verified now. `revokedMeanwhile` collects the keys revoked during these
   * verifications.
   */
  let identifying = 0
  const revokedMeanwhile = new Set<string>()
  const doubts = makeDoubts({ authenticator, clock, endKey })

  function end(connection: Connection, why: Rejection): void {
    connection.principal = undefined
    known.delete(connection)
    ports.ended(connection, why)
  }

  function isExpired({ expiresAtSec }: Principal): boolean {
    return expiresAtSec !== undefined && expiresAtSec * 1_000 <= clock.nowMs()
  }

  function endKey(keyId: string, why: Rejection): void {
    for (const connection of [...known]) {
      if (connection.principal?.keyId === keyId) end(connection, why)
    }
  }

  async function identify(token: string): Promise<Principal | Rejection> {
    identifying++
    try {
      let asOf = doubts.times()
      let principal = await authenticator.identify(`Bearer ${token}`)
      while (asOf !== doubts.times() && !isRejection(principal)) {
        asOf = doubts.times()
        principal = await authenticator.confirm(principal.keyId)
      }
      if (isRejection(principal)) return principal
      return revokedMeanwhile.has(principal.keyId) ? reject('UNAUTHORIZED_KEY_INACTIVE') : principal
    } finally {
      identifying--
      if (identifying === 0) revokedMeanwhile.clear()
    }
  }

  return {
    async authenticate(connection, token) {
      const principal = await identify(token)
      if (isRejection(principal) || connection.ws === undefined) return principal
      doubts.cleared(principal.keyId)
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
      for (const id of ids) doubts.cleared(id)
      for (const connection of known) {
        if (connection.principal === undefined || !ids.has(connection.principal.keyId)) continue
        end(connection, reject('UNAUTHORIZED_KEY_INACTIVE'))
      }
    },
    mayHaveMissed: () =>
      doubts.mayHaveMissed([...known].flatMap(({ principal }) => principal?.keyId ?? [])),
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
