/** Settings of the public log. */

import Type from 'typebox'
import { Key, LogHost, WitnessAddress } from './patterns.ts'

export const transparency = Type.Object({
  mode: Type.Enum(['off', 'on'], {
    env: 'SIBYL_TRANSPARENCY',
    description:
      'Whether the log of all markets is public: orders with their traders, cancels, fills and failures, in a form ' +
      'that anyone can verify. Signatures stay hidden while an order is open.',
  }),
  host: Type.String({
    env: 'SIBYL_TRANSPARENCY_HOST',
    pattern: LogHost,
    description:
      'Host name in the identity of the public logs, without a scheme: example.com. Clients and witnesses know a log by ' +
      'it, so it must not change.',
  }),
  keys: Type.Array(Type.String({ pattern: Key }), {
    env: 'SIBYL_TRANSPARENCY_KEYS',
    secret: true,
    maxItems: 4,
    description:
      'The Ed25519 private keys that sign checkpoints and receipts, separated by commas, each 0x and 64 hexadecimal ' +
      'digits or a file that holds them. All of them sign; more than one is for a rotation.',
  }),
  intervalMs: Type.Integer({
    env: 'SIBYL_TRANSPARENCY_INTERVAL_MS',
    minimum: 100,
    maximum: 60_000,
    unit: 'ms',
    description: 'The shortest time between two checkpoints.',
  }),
  witnesses: Type.Array(Type.String({ pattern: WitnessAddress }), {
    env: 'SIBYL_TRANSPARENCY_WITNESSES',
    maxItems: 8,
    description:
      'Witnesses (C2SP tlog-witness) to which checkpoints are submitted, separated by commas: the verifier key, @, and the ' +
      'address of each, such as witness.example/w1+1a2b3c4d+BAd…@https://witness.example. Their cosignatures are served ' +
      'with the checkpoint.',
  }),
})
