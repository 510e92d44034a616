/**
 * One record per price provider: its URLs, its names for assets, and its limits. Settings, routes, documents and the
 * simulator read this list. The code for a provider is looked up by its name, in `services/prices/feeds/makers.ts`.
 */

export type PriceProvider = {
  /** Default URL of the provider's HTTP API, without a slash at the end. */
  readonly url: string
  /** Default URL of the provider's WebSocket. A provider without a WebSocket pushes server-sent events from `url`. */
  readonly socketUrl?: string
  /** Path of the price stream. It is appended to `socketUrl`, or to `url` if the provider has no WebSocket. */
  readonly streamPath: string
  readonly needsApiKey?: true
  /** Setting that contains the provider's names for assets, and the required form of a name. */
  readonly naming: {
    /** Last part of the setting's name, such as `IDS` in `SIBYL_PYTH_IDS`. */
    readonly setting: string
    readonly description: string
    readonly pattern: string
    /** Required pattern of a name, described in words for error messages. */
    readonly form: string
  }
  /** The provider's default name for each asset. */
  readonly names: Readonly<Record<string, string>>
  /** Maximum ratio of confidence to price; undefined if the provider reports no confidence. */
  readonly confidenceMax?: number
}

/** All price providers: the primary oracle first, then the fallbacks in order of preference. */
export const PRICE_PROVIDERS = {
  pyth: {
    url: 'https://pyth.dourolabs.app/hermes',
    streamPath: '/v2/updates/price/stream',
    needsApiKey: true,
    naming: {
      setting: 'IDS',
      description: 'the id of its price feed',
      pattern: '^(0x)?[0-9a-fA-F]{64}$',
      form: '64 hexadecimal digits, with or without 0x',
    },
    names: {
      BTC: 'e62df6c8b4a85fe1a67db44dc12de5db330f7ac66b72dc658afedf0f4a415b43',
      ETH: 'ff61491a931112ddf1bd8147cd1b641375f79f5825126d665480874634fd0ace',
    },
    confidenceMax: 0.01,
  },
  binance: {
    url: 'https://data-api.binance.vision',
    socketUrl: 'wss://data-stream.binance.vision',
    streamPath: '/stream',
    naming: {
      setting: 'SYMBOLS',
      description: 'its symbol',
      pattern: '^[A-Z0-9]{1,24}$',
      form: '1 to 24 capital letters or digits, such as BTCUSDT',
    },
    names: { BTC: 'BTCUSDT', ETH: 'ETHUSDT' },
  },
  coinbase: {
    url: 'https://api.exchange.coinbase.com',
    socketUrl: 'wss://ws-feed.exchange.coinbase.com',
    streamPath: '',
    naming: {
      setting: 'PRODUCTS',
      description: 'its product',
      pattern: '^[A-Z0-9-]{1,24}$',
      form: '1 to 24 capital letters, digits or dashes, such as BTC-USD',
    },
    names: { BTC: 'BTC-USD', ETH: 'ETH-USD' },
  },
} as const satisfies Readonly<Record<string, PriceProvider>>

export type PriceSource = keyof typeof PRICE_PROVIDERS

/** All providers, in order of preference. */
export const PRICE_SOURCES = Object.keys(PRICE_PROVIDERS) as readonly PriceSource[]

export const priceProvider = (source: PriceSource): PriceProvider => PRICE_PROVIDERS[source]

/** A provider's settings. If `url` is empty, the provider is not used. */
export type ProviderSettings = {
  readonly url: string
  /** Address of the WebSocket, for providers that have one. */
  readonly socketUrl?: string
  /** API key, for providers that need one. */
  readonly apiKey?: string
  /** The provider's name for each asset. */
  readonly names: Readonly<Record<string, string>>
}

/** Returns the URL that a provider's prices come from, without a query. */
export function streamUrl(source: PriceSource, { url, socketUrl }: ProviderSettings): string {
  return `${socketUrl ?? url}${PRICE_PROVIDERS[source].streamPath}`
}
