/**
 * Ensures that a bearer token is used only once on all nodes that share a database. Before a front accepts a token, it
 * inserts a record of the token into the database (a “claim”). One statement inserts many claims. While the database is
 * unavailable, no token is accepted, and the client must retry.
 *
 * If the database stores a claim but its answer is lost, the front rejects the request. The client may send the same
 * token to this process again. Each claim contains a number that is derived from the token and a secret of the process.
 * By this number, the fronts of this process recognise their own claim, and accept the token. The ledger of used tokens
 * (`http/nonce-ledger.ts`) still ensures that this process does not accept a token twice.
 */

import { createHmac } from 'node:crypto'
import type { Settings } from '#config/settings-schema.ts'
import { databaseUrlOf, isNode } from '#config/thread-data.ts'
import { Fault } from '#domain/fault.ts'
import { TOKEN_LIFE_SEC } from '#domain/limits.ts'
import { isRejection, reject } from '#domain/rejection.ts'
import type { ClaimToken } from '#http/auth.ts'
import type { Clock } from '#runtime/clock.ts'
import { inTime } from '#runtime/in-time.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import type { Database } from '#store/engine/database.ts'
import type { NonceClaim } from '#store/writes/token-nonces.ts'
import { makeBatcher } from '#verify/batcher.ts'

/** Maximum time that a request waits until the use of its token is recorded. */
const CLAIM_MS = 5_000
/**
 * Interval at which old records are deleted. A record is kept for one token lifetime after its token has expired,
 * because the clocks of nodes may differ by that much.
 */
const FORGET_EVERY_MS = 10_000
/** Maximum wait for the database when a front stops. */
const CLOSE_MS_MAX = 5_000
const SLACK_SEC = TOKEN_LIFE_SEC
const CONNECTIONS = 2
const CLAIM_BYTES = 8

/** Loads the database code. A front whose tokens are valid only in this process never needs this code. */
const loadStore = async () => ({
  ...(await import('#store/engine/database.ts')),
  ...(await import('#store/open-database.ts')),
  ...(await import('#store/writes/token-nonces.ts')),
})

type Opened = {
  readonly store: Awaited<ReturnType<typeof loadStore>>
  readonly database: Database
  readonly sinceSec: number
}

type TokenClaims = { readonly claim: ClaimToken; close(): Promise<void> }

/**
 * Returns the function that records the use of tokens in the database. Returns undefined if tokens are valid only in
 * this process, which then records uses in memory.
 */
export function openTokenClaims(
  settings: Settings,
  clock: Clock,
  { log, every }: Pick<ThreadContext, 'log' | 'every'>,
  /** A random text that all fronts of this process share. */
  secret: string,
): TokenClaims | undefined {
  const isShared = settings.auth.nonces === 'database' || isNode(settings)
  if (!isShared || !settings.auth.singleUseNonce) return undefined
  let opening: Promise<Opened> | undefined
  // Start of this front. If the database does not store yet since when it records the use of tokens, it stores this
  // time. It has every use since then, because no token is accepted before its use is recorded. So a token issued later
  // can be accepted, even if its claim had to wait for the database.
  const startedSec = Math.floor(clock.nowMs() / 1_000)

  async function open(): Promise<Opened> {
    const store = await loadStore()
    const url = databaseUrlOf(settings)
    const database = await store.openDatabase(url, { connectionsMax: CONNECTIONS })
    try {
      const sinceSec = await store.claimsSince(database, startedSec)
      return { store, database, sinceSec }
    } catch (error) {
      await store.closeDatabase(database)
      throw error
    }
  }

  /** Opens the database once. A failed attempt is forgotten, so that the next token tries again. */
  function opened(): Promise<Opened> {
    opening ??= open().catch((error: unknown) => {
      opening = undefined
      throw error
    })
    return opening
  }

  const batcher = makeBatcher<NonceClaim, 'won' | 'used' | 'early' | 'away'>({
    workers: CONNECTIONS,
    async run(claims) {
      try {
        const { store, database, sinceSec } = await opened()
        const won = await store.claimNonces(database, claims)
        return claims.map(({ issuedSec }, at) => {
          if (won[at] !== true) return 'used'
          return issuedSec >= sinceSec ? 'won' : 'early'
        })
      } catch (error) {
        if (!(error instanceof Fault && error.retryable)) throw error
        log.warn({ why: error.message }, 'the database cannot record used tokens now')
        return claims.map(() => 'away' as const)
      }
    },
    deadlineMs: CLAIM_MS,
    onFailure: (error) => log.error({ err: error }, 'recording used tokens failed'),
  })

  let isForgetting = false
  every(FORGET_EVERY_MS, () => {
    if (isForgetting) return
    isForgetting = true
    const beforeSec = Math.floor(clock.nowMs() / 1_000) - SLACK_SEC
    opened()
      .then(({ store, database }) => store.forgetNonces(database, beforeSec))
      .catch((error: unknown) =>
        log.debug({ err: error }, 'records of expired tokens could not be deleted'),
      )
      .finally(() => {
        isForgetting = false
      })
  })

  return {
    async claim({ keyId, nonce, issuedSec }) {
      const untilSec = issuedSec + TOKEN_LIFE_SEC
      const claim = createHmac('sha256', secret).update(`${keyId}:${nonce}`).digest()
      const asked = { keyId, nonce, claim: claim.subarray(0, CLAIM_BYTES), issuedSec, untilSec }
      const outcome = await batcher.ask(asked)
      if (isRejection(outcome) || outcome === 'away') return reject('OVERLOADED')
      // The token was issued before uses were recorded, so it may have been used already. A single process also rejects
      // tokens that were issued before its start (`http/auth.ts`).
      if (outcome === 'early') return reject('UNAUTHORIZED_TOKEN_EXPIRED')
      return outcome === 'won' ? undefined : reject('UNAUTHORIZED_TOKEN_USED')
    },
    async close() {
      await inTime(end(), CLOSE_MS_MAX)
    },
  }

  async function end(): Promise<void> {
    await batcher.close()
    const found = await opening?.catch(() => undefined)
    if (found !== undefined) await found.store.closeDatabase(found.database)
  }
}
