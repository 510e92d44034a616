/**
 * Registers and revokes API keys, in the store thread, which alone writes the database. Changes are written one after
 * another, because each change must count the existing keys of its address. Once the database has a change, its caller
 * is answered and the fronts are notified.
 */

import type { ApiKey } from '#domain/api-key.ts'
import { API_KEY_WRITES_WAITING_MAX } from '#domain/limits.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { ApiKeysRequests } from '#protocol/projector.ts'
import type { Behaviour, Context, Deferred } from '#runtime/actor.ts'

/** Messages about API keys. A change is skipped after `untilMs`, because its caller no longer waits. */
export type ApiKeysProtocol = ApiKeysRequests & {
  KeyWritten: {
    takes: { ticket: Deferred; registered: ApiKey | undefined; revoked: readonly string[] }
    answers: undefined
  }
  KeyFailed: { takes: { ticket: Deferred; retry: boolean }; answers: undefined }
}
export type ApiKeysEvent =
  | { readonly type: 'KeysRevoked'; readonly ids: readonly string[] }
  | { readonly type: 'KeyRegistered'; readonly key: ApiKey }

type Change = {
  readonly ticket: Deferred
  readonly untilMs: number
  /** Key to register. */
  readonly registers?: ApiKey
  /** Writes the change; resolves with the ids of the revoked keys. */
  readonly write: () => Promise<readonly string[]>
}

export type ApiKeysState = {
  readonly register: (key: ApiKey, activeMax: number) => Promise<readonly string[]>
  readonly revoke: (id: string, atMs: number) => Promise<boolean>
  readonly waiting: Change[]
  writing: boolean
}

export function newApiKeys(writer: Pick<ApiKeysState, 'register' | 'revoke'>): ApiKeysState {
  return { ...writer, waiting: [], writing: false }
}

type KeysContext = Context<ApiKeysProtocol, ApiKeysEvent>

export const apiKeys: Behaviour<ApiKeysState, ApiKeysProtocol, ApiKeysEvent> = {
  RegisterApiKey(state, { key, activeMax, untilMs }, context) {
    const write = () => state.register(key, activeMax)
    return inTurn(state, context, { untilMs, registers: key, write })
  },

  RevokeApiKey(state, { id, atMs, untilMs }, context) {
    const write = () => state.revoke(id, atMs).then((found) => (found ? [id] : []))
    return inTurn(state, context, { untilMs, write })
  },

  KeyWritten(state, { ticket, registered, revoked }, context) {
    if (revoked.length > 0) context.emit({ type: 'KeysRevoked', ids: revoked })
    if (registered !== undefined) context.emit({ type: 'KeyRegistered', key: registered })
    context.answer(ticket, { revoked })
    writeNext(state, context)
    return undefined
  },

  KeyFailed(state, { ticket, retry }, context) {
    context.answer(ticket, reject(retry ? 'OVERLOADED' : 'INTERNAL'))
    writeNext(state, context)
    return undefined
  },
}

function inTurn(
  state: ApiKeysState,
  context: KeysContext,
  change: Omit<Change, 'ticket'>,
): Deferred | Rejection {
  if (state.waiting.length >= API_KEY_WRITES_WAITING_MAX) return reject('OVERLOADED')
  const ticket = context.defer()
  state.waiting.push({ ...change, ticket })
  if (!state.writing) writeNext(state, context)
  return ticket
}

function writeNext(state: ApiKeysState, context: KeysContext): void {
  state.writing = false
  for (let next = state.waiting.shift(); next !== undefined; next = state.waiting.shift()) {
    const { ticket, untilMs, registers: registered, write } = next
    if (untilMs <= context.nowMs) {
      context.answer(ticket, reject('OVERLOADED'))
      continue
    }
    state.writing = true
    context.pipe(
      write(),
      (revoked) => ({ type: 'KeyWritten', message: { ticket, registered, revoked } }),
      (error) => ({
        type: 'KeyFailed',
        message: { ticket, retry: (error as { retryable?: boolean }).retryable === true },
      }),
    )
    return
  }
}
