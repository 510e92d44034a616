/** Positions as a file for spreadsheets: exact decimals, and no text that a spreadsheet would run as a formula. */

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

/** Formats a plain number with an ASCII minus; empty if unknown. */
function asNumber(amount: bigint | number | undefined): string {
  if (amount === undefined) return ''
  return decimal(amount, DECIMALS).replaceAll(',', '').replace('−', '-')
}

/**
 * Quotes a cell: the creator of a market chooses its question. Spreadsheets run a cell that begins with one of these
 * characters, also after spaces and in their wide form; an apostrophe before it makes it text.
 */
function asText(text: string): string {
  const safe = /^\s*[=+\-@＝＋－＠\t\r\n]/.test(text) ? `'${text}` : text
  return `"${safe.replaceAll('"', '""')}"`
}
