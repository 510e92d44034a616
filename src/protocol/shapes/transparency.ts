/** The answers of `GET /api/v1/transparency` and `GET /api/v1/transparency/signatures`. */

import Type from 'typebox'
import type { Answer } from './fields.ts'

export const TransparencyAnswer = Type.Object({
  logs: Type.Array(
    Type.Object({
      partition: Type.Integer(),
      origin: Type.String({
        description: 'The identity of the log: the first line of its checkpoints',
      }),
      path: Type.String({ description: 'Prefix of `checkpoint` and `tile/…` on this server' }),
      verifierKeys: Type.Array(Type.String(), {
        description: 'Keys that sign checkpoints, each as `name+id+key` (C2SP signed-note)',
      }),
      size: Type.Integer({ description: 'Number of entries in the newest checkpoint' }),
      witnesses: Type.Optional(
        Type.Array(Type.String(), {
          description: 'Verifier keys of the witnesses that the exchange asks for cosignatures',
        }),
      ),
      cosignedSize: Type.Optional(
        Type.Integer({
          description: 'Number of entries in `cosigned-checkpoint`; 0 before the first one',
        }),
      ),
    }),
  ),
})
export type TransparencyAnswer = Answer<typeof TransparencyAnswer>

export const SignaturesAnswer = Type.Object({
  orders: Type.Array(
    Type.Object({
      orderHash: Type.String(),
      signature: Type.String({ description: '65 bytes' }),
      permit: Type.Optional(
        Type.Object({
          nonce: Type.String(),
          value: Type.String(),
          deadline: Type.String(),
          v: Type.Integer(),
          r: Type.String(),
          s: Type.String(),
        }),
      ),
    }),
  ),
})
export type SignaturesAnswer = Answer<typeof SignaturesAnswer>
