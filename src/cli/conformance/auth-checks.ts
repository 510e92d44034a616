/** Checks of tokens: each kind of invalid token has its own message. */

import { mintToken } from '#client/tokens.ts'
import type { Check } from './check.ts'
import { demandEqual } from './mismatch.ts'
import { demandShape, TEXT } from './shape.ts'
import { traderOf, type World } from './world.ts'

const SECOND_MS = 1_000
/** A text that has the length of a signature but is not one. */
const NO_SIGNATURE = base64url('\0'.repeat(64))

function base64url(text: string): string {
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

function token(kid: string, atMs: number): string {
  const ts = Math.floor(atMs / SECOND_MS)
  const n = crypto.randomUUID().replaceAll('-', '')
  return `Bearer ${base64url(JSON.stringify({ kid, ts, n }))}.${NO_SIGNATURE}`
}

/**
 * Checks the error message for an invalid token, with the request that cancels all orders. Every server requires a
 * token for this request. With an invalid token, it cancels nothing.
 */
async function demandWords(world: World, header: string | undefined, words: string): Promise<void> {
  const headers = header === undefined ? {} : { authorization: header }
  const { status, body } = await world.ask('/orders', { method: 'DELETE', headers })
  const { error } = (body ?? {}) as { error?: string }
  demandEqual(
    `the answer to ${header === undefined ? 'a request without a token' : 'an invalid token'}`,
    [status, error],
    [401, words],
  )
}

export const AUTH_CHECKS: readonly Check[] = [
  {
    id: 'auth.malformed',
    says: 'a missing token, a missing "Bearer" prefix and a malformed token get 401, each with a different message',
    async run(world) {
      await demandWords(world, undefined, 'missing authorization header')
      await demandWords(world, 'Basic dXNlcjpwYXNz', 'invalid authorization format')
      await demandWords(world, 'Bearer rubbish', 'invalid token format')
    },
  },
  {
    id: 'auth.expired',
    says: 'a token older than 5 minutes gets 401 with the message "token expired"',
    async run(world) {
      const tenMinutesAgo = (await world.nowMs()) - 600 * SECOND_MS
      await demandWords(world, token('nobody', tenMinutesAgo), 'token expired')
    },
  },
  {
    id: 'auth.unknown-key',
    says: 'a token of an unregistered key gets 401 with the message "API key not found"',
    async run(world) {
      await demandWords(world, token('nobody', await world.nowMs()), 'API key not found')
    },
  },
  {
    id: 'auth.registration',
    says: 'the registration of a key is rejected if another wallet signed it',
    async run(world) {
      const address = `0x${'1'.repeat(40)}`
      const body = { address, signature: `0x${'11'.repeat(64)}1b` }
      const { status, body: answer } = await world.ask('/api-keys', { method: 'POST', body })
      demandEqual('status', status, 401)
      demandShape('the answer', answer, { error: TEXT })
    },
  },
  {
    id: 'auth.key',
    says: 'a token of a registered key is accepted; a forged or already used token is rejected',
    async run(world) {
      const { apiKey } = traderOf(world)
      const { auth } = await world.config()
      const key = await apiKey()
      const nowMs = await world.nowMs()
      await demandWords(world, token(key.id, nowMs), 'invalid signature')
      const good = `Bearer ${await mintToken(key, nowMs)}`
      const use = () =>
        world.ask(`/orders?market=0x${'1'.repeat(64)}`, {
          ...{ method: 'DELETE', headers: { authorization: good } },
        })
      const first = await use()
      // The request names an unknown market, so it fails even with a valid token. Any status except 401 shows that the
      // server accepted the token.
      demandEqual('rejection of a valid token with status 401 to be', first.status === 401, false)
      if (auth.singleUse)
        demandEqual('the status of a request with a used token to be', (await use()).status, 401)
    },
  },
  {
    id: 'auth.revoked',
    says: 'a token of a revoked key gets 401 with the message "API key is inactive"',
    async run(world) {
      const { apiKey, revoke } = traderOf(world)
      const key = await apiKey()
      // This check revokes the key, so it runs after all other checks that need the key.
      await revoke()
      const used = `Bearer ${await mintToken(key, await world.nowMs())}`
      await demandWords(world, used, 'API key is inactive')
    },
  },
]
