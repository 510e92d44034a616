/**
 * Registers and revokes API keys. It lives beside the projector, because the store is the only
 * writer of the database, and answers once the database has it.
 */

import type { ApiKey } from '#domain/api-key.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { Behaviour, Context, Deferred } from '#runtime/actor.ts'

export type ApiKeysProtocol = {
  RegisterApiKey: {
    takes: { key: ApiKey; activeMax: number }
    answers: { revoked: readonly string[] } | Rejection
  }
  RevokeApiKey: { takes: { id: string; atMs: number }; answers: { revoked: boolean } | Rejection }
  KeyWritten: { takes: { ticket: Deferred; answer: object }; answers: undefined }
  KeyFailed: { takes: { ticket: Deferred; retry: boolean }; answers: undefined }
}

export type ApiKeysState = {
  readonly register: (key: ApiKey, activeMax: number) => Promise<readonly string[]>
  readonly revoke: (id: string, atMs: number) => Promise<boolean>
}

type KeysContext = Context<ApiKeysProtocol, never>

export const apiKeys: Behaviour<ApiKeysState, ApiKeysProtocol> = {
  RegisterApiKey(state, { key, activeMax }, context) {
    return answerLater(
      context,
      state.register(key, activeMax).then((revoked) => ({ revoked })),
    )
  },

  RevokeApiKey(state, { id, atMs }, context) {
    return answerLater(
      context,
      state.revoke(id, atMs).then((revoked) => ({ revoked })),
    )
  },

  KeyWritten(_state, { ticket, answer }, context) {
    context.answer(ticket, answer)
    return undefined
  },

  KeyFailed(_state, { ticket, retry }, context) {
    context.answer(ticket, reject(retry ? 'OVERLOADED' : 'INTERNAL'))
    return undefined
  },
}

function answerLater(context: KeysContext, work: Promise<object>): Deferred {
  const ticket = context.defer()
  context.pipe(
    work,
    (answer) => ({ type: 'KeyWritten', message: { ticket, answer } }),
    (error) => ({
      type: 'KeyFailed',
      message: { ticket, retry: (error as { retryable?: boolean }).retryable === true },
    }),
  )
  return ticket
}
