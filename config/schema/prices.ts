/** Settings of asset prices, and of the quick markets on them. */

import Type, { type TObject, type TOptional, type TRecord, type TString } from 'typebox'
import { MATCHINGS } from '#domain/market.ts'
import {
  PRICE_SOURCES,
  type PriceSource,
  type ProviderSettings,
  priceProvider,
} from '#domain/price-providers.ts'
import { AssetName, HttpUrlOrNone, SocketUrlOrNone } from './patterns.ts'

/** Returns the environment variable of a provider's setting, such as `SIBYL_PYTH_URL`. */
const settingName = (source: PriceSource, name: string): string =>
  `SIBYL_${source.toUpperCase()}_${name}`

export const apiKeySetting = (source: PriceSource): string => settingName(source, 'API_KEY')

type ProviderSchema = TObject<{
  url: TString
  socketUrl: TOptional<TString>
  apiKey: TOptional<TString>
  names: TRecord<string, TString>
}>

/** Returns the settings schema of a price provider, derived from the provider's record. */
function providerSchema(source: PriceSource): ProviderSchema {
  const { socketUrl, needsApiKey, naming } = priceProvider(source)
  return Type.Object({
    url: Type.String({
      env: settingName(source, 'URL'),
      pattern: HttpUrlOrNone,
      description: 'Its HTTP API; empty leaves the provider out.',
    }),
    ...(socketUrl !== undefined && {
      socketUrl: Type.String({
        env: settingName(source, 'SOCKET_URL'),
        pattern: SocketUrlOrNone,
        description: 'Its WebSocket; empty leaves the provider out.',
      }),
    }),
    ...(needsApiKey && {
      apiKey: Type.String({
        env: apiKeySetting(source),
        secret: true,
        description: 'Its API key.',
      }),
    }),
    names: Type.Record(Type.String(), Type.String({ pattern: naming.pattern }), {
      env: settingName(source, naming.setting),
      description: `By asset: ${naming.description}, as JSON.`,
    }),
  }) as unknown as ProviderSchema
}

const eachProvider = <T>(value: (source: PriceSource) => T): Record<PriceSource, T> =>
  Object.fromEntries(PRICE_SOURCES.map((source) => [source, value(source)])) as Record<
    PriceSource,
    T
  >

const providers = eachProvider(providerSchema)

/** Default settings of every provider. */
export const providerDefaults = eachProvider((source): ProviderSettings => {
  const { url, socketUrl, needsApiKey, names } = priceProvider(source)
  return {
    url,
    ...(socketUrl !== undefined && { socketUrl }),
    ...(needsApiKey && { apiKey: '' }),
    names: { ...names },
  }
})

export const feeds = Type.Object({
  live: Type.Boolean({
    env: 'SIBYL_FEEDS_LIVE',
    description:
      'Whether prices come from the providers below; if not, from the simulator of the devnet, ' +
      'and without a devnet there are none.',
  }),
  assets: Type.Array(Type.String({ pattern: AssetName }), {
    env: 'SIBYL_FEEDS_ASSETS',
    maxItems: 100,
    description: 'The assets that have prices and quick markets, separated by commas.',
  }),
  ageMsMax: Type.Integer({
    env: 'SIBYL_FEEDS_AGE_MS_MAX',
    minimum: 500,
    maximum: 600_000,
    unit: 'ms',
    description: 'A provider with an older newest price is not used.',
  }),
  recoverMs: Type.Integer({
    env: 'SIBYL_FEEDS_RECOVER_MS',
    minimum: 0,
    maximum: 3_600_000,
    unit: 'ms',
    description: 'How long a failed provider must be healthy before it is active again.',
  }),
  deviationBps: Type.Integer({
    env: 'SIBYL_FEEDS_DEVIATION_BPS',
    minimum: 1,
    maximum: 10_000,
    unit: 'bp',
    description:
      'Maximum difference between providers, in hundredths of %; above it none is trusted.',
  }),
  jumpBps: Type.Integer({
    env: 'SIBYL_FEEDS_JUMP_BPS',
    minimum: 1,
    maximum: 100_000,
    unit: 'bp',
    description: 'Maximum jump of one provider without confirmation by another.',
  }),
  publishMs: Type.Integer({
    env: 'SIBYL_FEEDS_PUBLISH_MS',
    minimum: 0,
    maximum: 60_000,
    unit: 'ms',
    description: 'The shortest time between two published prices of an asset.',
  }),
  ...providers,
  simulator: Type.Object({
    port: Type.Integer({
      env: 'SIBYL_FEEDS_SIMULATOR_PORT',
      minimum: 0,
      maximum: 65_535,
      description: 'The port of the simulator of the devnet. 0 picks a free one.',
    }),
    seed: Type.Integer({
      env: 'SIBYL_FEEDS_SIMULATOR_SEED',
      minimum: 0,
      maximum: 2_147_483_647,
      unit: 'number',
      description: 'The same seed gives the same prices at the same times.',
    }),
  }),
})

export const quick = Type.Object({
  enabled: Type.Boolean({
    env: 'SIBYL_QUICK_MARKETS',
    description: 'Whether quick markets are opened, if there are prices and a chain.',
  }),
  intervalSeconds: Type.Integer({
    env: 'SIBYL_QUICK_INTERVAL_SECONDS',
    minimum: 2,
    maximum: 86_400,
    unit: 's',
    description: 'Duration of a quick market; they start at multiples of it.',
  }),
  withinSeconds: Type.Integer({
    env: 'SIBYL_QUICK_WITHIN_SECONDS',
    minimum: 1,
    maximum: 3_600,
    unit: 's',
    description: 'A price reported later than this after a start or an end does not count for it.',
  }),
  fallbackSeconds: Type.Integer({
    env: 'SIBYL_QUICK_FALLBACK_SECONDS',
    minimum: 1,
    maximum: 604_800,
    unit: 's',
    description: 'How long to wait for the source of the strike before another source decides.',
  }),
  agreementBps: Type.Integer({
    env: 'SIBYL_QUICK_AGREEMENT_BPS',
    minimum: 0,
    maximum: 10_000,
    unit: 'bps',
    description:
      'The largest difference between the price moves of two sources at which one source may decide ' +
      'against the others; beyond it the optimistic oracle decides the market.',
  }),
  matching: Type.Enum([...MATCHINGS], {
    env: 'SIBYL_QUICK_MATCHING',
    description:
      '`complementary` opens quick markets in which a buy of YES also matches a buy of NO, and a sell of YES a ' +
      'sell of NO. Change it between two quick markets: those that are open keep their rule.',
  }),
  pollMs: Type.Integer({
    env: 'SIBYL_QUICK_POLL_MS',
    minimum: 10,
    maximum: 60_000,
    unit: 'ms',
    description: 'Interval of requests about sent transactions.',
  }),
})
