/**
 * Every setting of Sibyl: its name in the environment, unit, bounds and meaning. The groups of settings are defined in
 * `schema/`; lists of settings use the order of this file.
 */

import Type, { type Static } from 'typebox'
import { PRICE_SOURCES, priceProvider } from '#domain/price-providers.ts'
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
  eventLog,
  logging,
  markets,
  matching,
  orders,
  service,
  supervisor,
  traces,
  verify,
} from './schema/exchange.ts'
import { auth, front, limits, sse, stream, web } from './schema/http.ts'
import { apiKeySetting, feeds, quick } from './schema/prices.ts'
import { risk } from './schema/risk.ts'
import { transparency } from './schema/transparency.ts'

const MAY_BE_MISSING = [
  ...['SIBYL_CHAINS', 'SIBYL_SETTLEMENT_KEY', 'SIBYL_RELAYER_KEYS'],
  ...['SIBYL_OPERATOR_KEY', 'SIBYL_RESOLUTION_KEY'],
  ...PRICE_SOURCES.filter((source) => priceProvider(source).needsApiKey).map(apiKeySetting),
]

export const SettingsSchema = Type.Object({
  profile: Type.String({
    env: 'SIBYL_PROFILE',
    description: 'Which set of values to start from: default, devnet or production.',
  }),
  allowMissing: Type.Array(Type.Enum(MAY_BE_MISSING), {
    env: 'SIBYL_ALLOW_MISSING',
    maxItems: MAY_BE_MISSING.length,
    description:
      'Settings that a production exchange may start without, separated by commas; any other missing one stops the start.',
  }),
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
  logging,
  traces,
  eventLog,
  transparency,
  cluster,
})

export type Settings = Static<typeof SettingsSchema>

type PartialDeep<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { readonly [K in keyof T]?: PartialDeep<T[K]> }
    : T

/** A profile: any subset of the settings. */
export type Profile = PartialDeep<Settings>
