/** Writes positions as a CSV file for spreadsheets. Decimals are exact, and no text can run as a formula. */

import { decimal } from '../format.ts'
import type { Holding } from './holdings.ts'

const DECIMALS = 6
const HEAD = [
  'market',
  'market_id',
  'outcome',
  'shares',
  'cost',
  'price',
  'value',
  'profit',
  'resolved',
]

export function positionsCsv(holdings: readonly Holding[]): string {
  const rows = holdings.map(({ position, outcome, shares, cost, price, value, profit }) => [
    asText(position.marketQuestion),
    position.marketId,
    outcome === 0 ? 'YES' : 'NO',
    ...[shares, cost, price, value, profit].map(asNumber),
    String(position.resolved),
  ])
  return [HEAD, ...rows].map((cells) => `${cells.join(',')}\r\n`).join('')
}

/** Formats a number without thousands separators and with an ASCII minus; '' if the number is unknown. */
function asNumber(amount: bigint | number | undefined): string {
  if (amount === undefined) return ''
  return decimal(amount, DECIMALS).replaceAll(',', '').replace('−', '-')
}

/**
 * Quotes a cell with untrusted text, such as a market's question, which the market's creator chose. Spreadsheets run
 * text as a formula if it begins with a character such as `=`. They do so even if the character has its full-width form
 * or follows spaces. An apostrophe before the text prevents this.
 */
function asText(text: string): string {
  const safe = /^\s*[=+\-@＝＋－＠\t\r\n]/.test(text) ? `'${text}` : text
  return `"${safe.replaceAll('"', '""')}"`
}
