/** The answers of `GET /api/v1/transparency` and `GET /api/v1/transparency/signatures`. */

import Type from 'typebox'
import type { Answer } from './fields.ts'

export const TransparencyAnswer = Type.Object({
  logs: Type.Array(
    Type.Object({
      partition: Type.Integer(),
      origin: Type.String({
        description: 'Identity of the log. Each checkpoint of the log has it as its first line',
      }),
      path: Type.String({
        description: 'Path of the log on this server; `checkpoint` and `tile/…` are below it',
      }),
      verifierKeys: Type.Array(Type.String(), {
        description:
          'Keys that sign the log’s checkpoints, each in the form `name+id+key` (C2SP signed-note)',
      }),
      size: Type.Integer({
        description: 'Number of log entries that the newest checkpoint covers',
      }),
      witnesses: Type.Optional(
        Type.Array(Type.String(), {
          description:
            'Verifier keys of the witnesses that cosign checkpoints; absent if the exchange has no witnesses',
        }),
      ),
      cosignedSize: Type.Optional(
        Type.Integer({
          description:
            'Number of log entries that `cosigned-checkpoint` covers; 0 before the first cosignature, absent without ' +
            'witnesses',
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
      signature: Type.String({ description: 'Signature of the order, 65 bytes as hex' }),
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
