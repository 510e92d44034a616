/** `POST /api/v1/api-keys` and `DELETE /api/v1/api-keys/{id}`: API keys of a wallet. */

import Type from 'typebox'
import { API_KEY_NAME_CHARS_MAX, API_KEYS_PER_ADDRESS_MAX } from '#domain/limits.ts'
import { isRejection, reject } from '#domain/rejection.ts'
import type { Authenticator } from '#http/auth.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { addressKeepingCase, safeInteger } from '#http/schemas.ts'
import { TRADER } from '../orders/order-examples.ts'
import type { KeyService } from './key-service.ts'

// The wallet signs the address exactly as the client sent it, so the address keeps its upper and lower case.
const addressAsWritten = () => addressKeepingCase({ description: 'Address of the wallet' })
const walletSignature = () =>
  Type.String({
    maxLength: 200,
    description:
      'The wallet’s signature of the message (personal_sign), 65 bytes as hex. For a contract account, a ' +
      'signature that its code accepts (EIP-1271)',
  })
const closed = { additionalProperties: false } as const
const EXAMPLE_ID = '7c9e6679-7425-40de-944b-e07fc1f90ae7'

export function registerApiKey(
  keys: KeyService,
  nowMs: () => number,
  service: string,
): AnswerRoute {
  return route({
    method: 'POST',
    path: '/api/v1/api-keys',
    operationId: 'registerApiKey',
    auth: 'wallet',
    cost: 'registration',
    tag: 'keys',
    summary: 'Register an API key',
    description:
      `The wallet signs the message \`Register API key for ${service}: <address>\`, with the address written ` +
      'exactly as in the field `address`. Only this answer contains the private key. An address can have ' +
      `${API_KEYS_PER_ADDRESS_MAX} active keys; registering a further key revokes the oldest one.`,
    body: Type.Object(
      {
        address: addressAsWritten(),
        signature: walletSignature(),
        name: Type.Optional(
          Type.String({
            pattern: '^[^\\x00-\\x1f\\x7f]*$',
            maxLength: API_KEY_NAME_CHARS_MAX,
            description: 'Name of the key, one line; only for the owner’s use',
          }),
        ),
        expiresAt: Type.Optional(
          safeInteger({
            description:
              'Time at which the key expires, in Unix seconds; without it, the key does not expire',
          }),
        ),
      },
      closed,
    ),
    responses: {
      200: Type.Object({
        success: Type.Literal(true),
        api_key_id: Type.String(),
        api_private_key: Type.String({
          description:
            'Ed25519 private key of the API key, 64 hex digits; the exchange shows it only once',
        }),
        message: Type.String(),
      }),
    },
    errors: ['UNAUTHORIZED_INVALID_SIGNATURE', 'OVERLOADED', 'CHAIN_UNAVAILABLE'],
    examples: {
      body: { 'a key for a bot': { value: { address: TRADER, signature: '0x…', name: 'bot' } } },
      responses: {
        200: {
          registered: {
            value: {
              success: true,
              api_key_id: EXAMPLE_ID,
              api_private_key: '00'.repeat(32),
              message: 'keep the private key: it is not stored and cannot be shown again',
            },
          },
        },
      },
    },
    async handle({ body, deadlineAtMs, ip }) {
      const { address, signature, name = '', expiresAt } = body
      if (expiresAt !== undefined && expiresAt * 1_000 <= nowMs()) {
        return reject(
          'INVALID_FIELD',
          'expiresAt',
          'expiresAt must be a time in the future, in Unix seconds',
        )
      }
      const key = await keys.register({
        address,
        signature,
        name,
        expiresAtSec: expiresAt ?? null,
        deadlineAtMs,
        asker: { ip },
      })
      if (isRejection(key)) return key
      return {
        status: 200,
        body: {
          success: true as const,
          api_key_id: key.id,
          api_private_key: key.privateKey,
          message: 'keep the private key: it is not stored and cannot be shown again',
        },
      }
    },
  })
}

export function revokeApiKey(
  keys: KeyService,
  authenticator: Authenticator,
  service: string,
): AnswerRoute {
  return route({
    method: 'DELETE',
    path: '/api/v1/api-keys/{id}',
    operationId: 'revokeApiKey',
    auth: 'wallet',
    cost: 'registration',
    tag: 'keys',
    summary: 'Revoke an API key',
    description:
      'The request must have one of two proofs. Either it has a bearer token of the key that is ' +
      'to be revoked. Or its body has the address of the wallet, and the wallet’s signature of ' +
      `the message \`Revoke API key <id> for ${service}: <address>\`.`,
    params: Type.Object({ id: Type.String({ minLength: 1, maxLength: 64 }) }, closed),
    body: Type.Object({ address: addressAsWritten(), signature: walletSignature() }, closed),
    bodyOptional: true,
    headers: ['authorization'],
    responses: {
      200: Type.Object({
        success: Type.Literal(true),
        api_key_id: Type.String(),
        message: Type.String(),
      }),
    },
    errors: [
      'UNAUTHORIZED_MISSING_HEADER',
      'UNAUTHORIZED_INVALID_SIGNATURE',
      'NOT_KEY_OWNER',
      'NOT_FOUND',
      'OVERLOADED',
      'CHAIN_UNAVAILABLE',
    ],
    examples: {
      responses: {
        200: {
          revoked: {
            value: { success: true, api_key_id: EXAMPLE_ID, message: 'the key is revoked' },
          },
        },
      },
    },
    async handle({ path, body, headers, deadlineAtMs, ip }) {
      let revoked: Awaited<ReturnType<KeyService['revoke']>>
      if (body !== undefined) {
        revoked = await keys.revokeBySignature({
          ...{ id: path.id, ...body, deadlineAtMs },
          asker: { ip },
        })
      } else {
        const principal = await authenticator.identify(headers.authorization ?? '')
        if (isRejection(principal)) return principal
        if (principal.keyId !== path.id) return reject('NOT_KEY_OWNER')
        revoked = await keys.revoke(path.id, deadlineAtMs)
      }
      if (isRejection(revoked)) return revoked
      return {
        status: 200,
        body: { success: true as const, api_key_id: revoked.id, message: 'the key is revoked' },
      }
    },
  })
}
