/**
 * Every setting of Sibyl: its name in the environment, its unit, its bounds and what it does. The
 * parts are in `schema/`; they are shown in the order of this list.
 */

import Type, { type Static } from 'typebox'
import {
  chainRpc,
  chains,
  devnet,
  indexer,
  keys,
  relayer,
  resolution,
  settlement,
} from './schema/chain.ts'
import { cluster } from './schema/cluster.ts'
import {
  clock,
  data,
  database,
  demoMarkets,
  demoMarketsMore,
  log,
  markets,
  matching,
  orders,
  service,
  supervisor,
  verify,
} from './schema/exchange.ts'
import { auth, front, limits, sse, stream, web } from './schema/http.ts'
import { feeds, quick } from './schema/prices.ts'
import { risk } from './schema/risk.ts'

export const SettingsSchema = Type.Object({
  profile: Type.String({
    env: 'SIBYL_PROFILE',
    description: 'Which set of values to start from: default, devnet or production.',
  }),
  allowMissing: Type.Array(
    Type.Enum([
      ...(['SIBYL_CHAINS', 'SIBYL_SETTLEMENT_KEY', 'SIBYL_RELAYER_KEYS'] as const),
      ...(['SIBYL_OPERATOR_KEY', 'SIBYL_RESOLUTION_KEY', 'SIBYL_PYTH_API_KEY'] as const),
    ]),
    {
      env: 'SIBYL_ALLOW_MISSING',
      maxItems: 6,
      description:
        'Settings that a production exchange may start without, separated by commas; any other missing one stops the start.',
    },
  ),
  service,
  front,
  web,
  auth,
  limits,
  data,
  clock,
  database,
  markets,
  matching,
  orders,
  risk,
  verify,
  chains,
  chainRpc,
  indexer,
  devnet,
  keys,
  resolution,
  relayer,
  settlement,
  feeds,
  quick,
  sse,
  demoMarkets,
  demoMarketsMore,
  stream,
  supervisor,
  log,
  cluster,
})

export type Settings = Static<typeof SettingsSchema>

type PartialDeep<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { readonly [K in keyof T]?: PartialDeep<T[K]> }
    : T

/** What a profile may say: any part of the settings. */
export type Profile = PartialDeep<Settings>
