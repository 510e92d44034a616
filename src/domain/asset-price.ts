/**
 * The price of an asset as a provider reported it: an integer of eight decimals of USD, with the
 * provider's own time. Texts are read exactly; no float takes part in it.
 */

/** The primary oracle first, then the fallbacks in their order. */
export const PRICE_SOURCES = ['pyth', 'binance', 'coinbase'] as const
export type PriceSource = (typeof PRICE_SOURCES)[number]

/** USD × 10^8. */
export const PRICE_DECIMALS = 8
const PRICE_SCALE = 10 ** PRICE_DECIMALS
/** Ten million dollars: whatever is above it is no price of an asset that is listed here. */
export const ASSET_PRICE_MAX = 10_000_000 * PRICE_SCALE

/** How an observation came: pushed, asked for as the latest, or out of the provider's history. */
export type ObservedVia = 'stream' | 'latest' | 'history'

export type Observation = {
  /** In upper case: `BTC`. */
  readonly asset: string
  readonly source: PriceSource
  readonly price: number
  /** When the provider says the price was made, in Unix milliseconds. */
  readonly atMs: number
  readonly receivedAtMs: number
  readonly via: ObservedVia
  /** Which connection it came over; what one connection pushes comes without a gap. */
  readonly line: number
  /** The provider's report as it came. */
  readonly raw: string
}

const DECIMAL = /^([0-9]{1,12})(?:\.([0-9]{1,18}))?$/
const INTEGER = /^[0-9]{1,24}$/

/** Reads `64152.43`; digits beyond the eighth decimal are cut. Undefined for anything else. */
export function priceOfDecimal(text: unknown): number | undefined {
  const parts = typeof text === 'string' ? DECIMAL.exec(text) : null
  if (parts === null) return undefined
  const fraction = (parts[2] ?? '').slice(0, PRICE_DECIMALS).padEnd(PRICE_DECIMALS, '0')
  return within(BigInt(`${parts[1]}${fraction}`))
}

/** Reads a mantissa with its power of ten: `6415243000000` and -8. */
export function priceOfScaled(mantissa: unknown, exponent: unknown): number | undefined {
  if (typeof mantissa !== 'string' || !INTEGER.test(mantissa)) return undefined
  if (!Number.isInteger(exponent) || Math.abs(exponent as number) > 18) return undefined
  const shift = PRICE_DECIMALS + (exponent as number)
  const value = BigInt(mantissa)
  return within(shift >= 0 ? value * 10n ** BigInt(shift) : value / 10n ** BigInt(-shift))
}

function within(value: bigint): number | undefined {
  return value > 0n && value <= BigInt(ASSET_PRICE_MAX) ? Number(value) : undefined
}

/** The one float of the API. */
export function priceUsd(price: number): number {
  return price / PRICE_SCALE
}

/** How far two prices are apart, as a share of the smaller one. */
export function deviation(a: number, b: number): number {
  return Math.abs(a - b) / Math.min(a, b)
}

const ASSET = /^[A-Za-z0-9]{1,16}$/

/** A symbol in any case, as it is kept; undefined for what cannot be one. */
export function parseAsset(text: string): string | undefined {
  return ASSET.test(text) ? text.toUpperCase() : undefined
}
