/**
 * The price of an asset as reported by a provider: an integer with eight decimals of USD, with the provider's time.
 * Decimal strings are parsed exactly, without floats.
 */

import type { PriceSource } from './price-providers.ts'

/** USD × 10^8. */
export const PRICE_DECIMALS = 8
const PRICE_SCALE = 10 ** PRICE_DECIMALS
/** Ten million dollars: no listed asset has a higher price. */
export const ASSET_PRICE_MAX = 10_000_000 * PRICE_SCALE

/** How an observation was received: pushed by the provider, requested as its latest price, or read from its history. */
export type ObservedVia = 'stream' | 'latest' | 'history'

export type Observation = {
  /** Symbol of the asset in upper case: `BTC`. */
  readonly asset: string
  readonly source: PriceSource
  readonly price: number
  /** The provider's time of the price, in Unix milliseconds. */
  readonly atMs: number
  readonly receivedAtMs: number
  readonly via: ObservedVia
  /**
   * Id of the connection that delivered the price; 0 if the price was requested. No price is missing between
   * two prices that were pushed on the same connection.
   */
  readonly line: number
  /** The provider's report, unchanged. */
  readonly raw: string
}

const DECIMAL = /^([0-9]{1,12})(?:\.([0-9]{1,18}))?$/
const INTEGER = /^[0-9]{1,24}$/

/**
 * Parses a decimal price such as `64152.43`; cuts digits beyond the eighth decimal. Returns undefined if the text is
 * not a valid price.
 */
export function priceOfDecimal(text: unknown): number | undefined {
  const parts = typeof text === 'string' ? DECIMAL.exec(text) : null
  if (parts === null) return undefined
  const fraction = (parts[2] ?? '').slice(0, PRICE_DECIMALS).padEnd(PRICE_DECIMALS, '0')
  return within(BigInt(`${parts[1]}${fraction}`))
}

/** Parses a price that is given as a mantissa and a power of ten, such as `6415243000000` and -8. */
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

/** Converts a price to USD as a float; no other amount in the API is a float. */
export function priceUsd(price: number): number {
  return price / PRICE_SCALE
}

/** Returns the difference of two prices as a fraction of the smaller price. */
export function deviation(a: number, b: number): number {
  return Math.abs(a - b) / Math.min(a, b)
}

const ASSET = /^[A-Za-z0-9]{1,16}$/

/** Returns an asset's symbol in upper case; undefined if the symbol is invalid. */
export function parseAsset(text: string): string | undefined {
  return ASSET.test(text) ? text.toUpperCase() : undefined
}
