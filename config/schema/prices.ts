/** Settings of the prices of assets, and of the quick markets that live by them. */

import Type from 'typebox'
import {
  AssetName,
  FeedId,
  FeedProduct,
  FeedSymbol,
  HttpUrlOrNone,
  SocketUrlOrNone,
} from './patterns.ts'

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
    description: 'A provider whose newest price is older does not speak.',
  }),
  recoverMs: Type.Integer({
    env: 'SIBYL_FEEDS_RECOVER_MS',
    minimum: 0,
    maximum: 3_600_000,
    unit: 'ms',
    description: 'How long a provider that failed has to be well before it speaks again.',
  }),
  deviationBps: Type.Integer({
    env: 'SIBYL_FEEDS_DEVIATION_BPS',
    minimum: 1,
    maximum: 10_000,
    unit: 'bp',
    description: 'How far providers may be apart before none is believed, in hundredths of %.',
  }),
  jumpBps: Type.Integer({
    env: 'SIBYL_FEEDS_JUMP_BPS',
    minimum: 1,
    maximum: 100_000,
    unit: 'bp',
    description: 'How far one may jump without another that agrees.',
  }),
  publishMs: Type.Integer({
    env: 'SIBYL_FEEDS_PUBLISH_MS',
    minimum: 0,
    maximum: 60_000,
    unit: 'ms',
    description: 'The shortest time between two prices of an asset that leave.',
  }),
  pyth: Type.Object({
    url: Type.String({
      env: 'SIBYL_PYTH_URL',
      pattern: HttpUrlOrNone,
      description: "Hermes; empty leaves Pyth out, as every provider's empty address does.",
    }),
    apiKey: Type.String({
      env: 'SIBYL_PYTH_API_KEY',
      secret: true,
      description: 'Its API key.',
    }),
    ids: Type.Record(Type.String(), Type.String({ pattern: FeedId }), {
      env: 'SIBYL_PYTH_IDS',
      description: 'By asset: the id of its price feed, as JSON.',
    }),
  }),
  binance: Type.Object({
    url: Type.String({
      env: 'SIBYL_BINANCE_URL',
      pattern: HttpUrlOrNone,
      description: 'Its REST API.',
    }),
    socketUrl: Type.String({
      env: 'SIBYL_BINANCE_SOCKET_URL',
      pattern: SocketUrlOrNone,
      description: 'Its market streams.',
    }),
    symbols: Type.Record(Type.String(), Type.String({ pattern: FeedSymbol }), {
      env: 'SIBYL_BINANCE_SYMBOLS',
      description: 'By asset: its symbol, as JSON.',
    }),
  }),
  coinbase: Type.Object({
    url: Type.String({
      env: 'SIBYL_COINBASE_URL',
      pattern: HttpUrlOrNone,
      description: 'Its REST API.',
    }),
    socketUrl: Type.String({
      env: 'SIBYL_COINBASE_SOCKET_URL',
      pattern: SocketUrlOrNone,
      description: 'Its market data feed.',
    }),
    products: Type.Record(Type.String(), Type.String({ pattern: FeedProduct }), {
      env: 'SIBYL_COINBASE_PRODUCTS',
      description: 'By asset: its product, as JSON.',
    }),
  }),
  simulator: Type.Object({
    port: Type.Integer({
      env: 'SIBYL_FEEDS_SIMULATOR_PORT',
      minimum: 0,
      maximum: 65_535,
      description: 'The port of the simulator of the devnet. 0 takes a free one.',
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
    description: 'Whether quick markets are opened, where there are prices and a chain.',
  }),
  intervalSeconds: Type.Integer({
    env: 'SIBYL_QUICK_INTERVAL_SECONDS',
    minimum: 2,
    maximum: 86_400,
    unit: 's',
    description: 'How long each lasts; they begin at multiples of it.',
  }),
  withinSeconds: Type.Integer({
    env: 'SIBYL_QUICK_WITHIN_SECONDS',
    minimum: 1,
    maximum: 3_600,
    unit: 's',
    description: 'A price later than this after a start or an end is not the price of it.',
  }),
  fallbackSeconds: Type.Integer({
    env: 'SIBYL_QUICK_FALLBACK_SECONDS',
    minimum: 1,
    maximum: 604_800,
    unit: 's',
    description: "How long the strike's own source is waited for before another decides.",
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
  pollMs: Type.Integer({
    env: 'SIBYL_QUICK_POLL_MS',
    minimum: 10,
    maximum: 60_000,
    unit: 'ms',
    description: 'How often the chain is asked about what was sent.',
  }),
})
