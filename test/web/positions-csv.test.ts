import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Holding } from '#web/portfolio/holdings.ts'
import { positionsCsv } from '#web/portfolio/positions-csv.ts'

const holding = (marketQuestion: string, part: Partial<Holding> = {}) =>
  ({
    position: { marketQuestion, marketId: '0xab', resolved: false },
    ...{ outcome: 1, shares: 1_234_567_890_123n, cost: 5_000_000n },
    ...{ price: 420_000, value: 4_000_001n, profit: -999_999n },
    ...part,
  }) as Holding

test('positions are exported with exact decimals that a spreadsheet reads as numbers', () => {
  const unknown = { price: undefined, value: undefined, profit: undefined }
  assert.deepEqual(
    positionsCsv([holding('Rain, "soon"?'), holding('Sun?', unknown)]).split('\r\n'),
    [
      'market,market_id,outcome,shares,cost,price,value,profit,resolved',
      '"Rain, ""soon""?",0xab,NO,1234567.890123,5.000000,0.420000,4.000001,-0.999999,false',
      '"Sun?",0xab,NO,1234567.890123,5.000000,,,,false',
      '',
    ],
  )
})

test('a question that a spreadsheet would run as a formula is exported as text', () => {
  for (const question of [
    '=1+1',
    '+1',
    '-1',
    '@SUM(A1)',
    '\t=1',
    '\r=1',
    '\n=1',
    ' =1',
    '\u00a0=1',
    '＝1',
    '＠A',
  ]) {
    const [, row = ''] = positionsCsv([holding(question)]).split(/\r\n(?=")/)
    assert.ok(row.startsWith(`"'${question}"`), JSON.stringify(question))
  }
})
