/**
 * Who the connections are. A session is authenticated by one token and stays so until its key is
 * revoked or expires; then the client is told, and is as unknown as any other. What it follows goes
 * on: that is public.
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

export function makeSessions(ports: {
  readonly authenticator: Pick<Authenticator, 'identify'>
  readonly clock: Clock
  /** The connection was authenticated and is so no more. */
  readonly ended: (connection: Connection, why: Rejection) => void
}): Sessions {
  const { authenticator, clock } = ports
  const known = new Set<Connection>()
  /** Tokens that are being looked at, and what was revoked meanwhile. */
  let identifying = 0
  const revokedMeanwhile = new Set<string>()

  function end(connection: Connection, why: Rejection): void {
    connection.principal = undefined
    known.delete(connection)
    ports.ended(connection, why)
  }

  function isExpired({ expiresAtSec }: Principal): boolean {
    return expiresAtSec !== undefined && expiresAtSec * 1_000 <= clock.nowMs()
  }

  async function identify(token: string): Promise<Principal | Rejection> {
    identifying++
    try {
      const principal = await authenticator.identify(`Bearer ${token}`)
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
      for (const connection of known) {
        if (connection.principal === undefined || !ids.has(connection.principal.keyId)) continue
        end(connection, reject('UNAUTHORIZED_KEY_INACTIVE'))
      }
    },
    unheard() {
      const why = 'it is not known any more whether the key is active: authenticate again'
      for (const connection of [...known]) {
        end(connection, reject('UNAUTHORIZED_KEY_INACTIVE', undefined, why))
      }
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
