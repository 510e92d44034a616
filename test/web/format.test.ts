/** Formats of numbers, times and addresses on the page. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  ago,
  assetPrice,
  cents,
  countdown,
  decimal,
  exactDecimal,
  money,
  percent,
  roundCents,
  shares,
  shortAddress,
  shortMoney,
  signedCents,
  signedDifference,
  signedMoney,
  timeLeft,
} from '#web/format.ts'

test('an amount is truncated to the requested number of decimals, never rounded up', () => {
  assert.equal(decimal(1_999_999, 2), '1.99')
  assert.equal(decimal(-1_999_999n, 2), '−1.99')
  assert.equal(decimal(1_234_567_890_123n, 2), '1,234,567.89')
  assert.equal(decimal(999_999, 0), '0')
  assert.equal(decimal(-1, 2), '0.00', 'nothing has no sign')
  assert.equal(decimal(2n ** 80n, 0), '1,208,925,819,614,629,174')
})

test('an exact amount has all its decimals and no more', () => {
  assert.equal(exactDecimal(1_500_000, 2), '1.50')
  assert.equal(exactDecimal(1_234_567, 2), '1.234567')
  assert.equal(exactDecimal(5_000_000, 0), '5')
  assert.equal(exactDecimal(0, 2), '0.00')
})

test('money, shares and prices are formatted with their units', () => {
  assert.equal(money(1_234_560_000), '$1,234.56')
  assert.equal(money(-5_000_000), '−$5.00')
  assert.equal(signedMoney(5_000_000), '+$5.00')
  assert.equal(signedMoney(-5_000_000), '−$5.00')
  assert.equal(signedMoney(0), '$0.00')
  assert.equal(signedCents(20_000), '+2.0¢')
  assert.equal(signedCents(-15_000), '−1.5¢')
  assert.equal(signedDifference(1_240_000_000), '+12.40')
  assert.equal(signedDifference(-1), '0.00')
  assert.equal(shares(2_500_000), '2.50')
  assert.equal(cents(423_000), '42.3¢')
  assert.equal(cents(420_000), '42.0¢')
  assert.equal(cents(423_456), '42.3456¢')
  assert.equal(roundCents(499_960), '50.0¢')
  assert.equal(percent(423_456), '42.3%')
  assert.equal(percent(999_999), '99.9%', 'nothing is certain before it is decided')
  assert.equal(assetPrice(6_415_243_000_000), '64,152.43')
})

test('the page abbreviates large sums, such as $43.1K and $1.2M', () => {
  assert.equal(shortMoney(12_340_000), '$12.34')
  assert.equal(shortMoney(999_990_000), '$999')
  assert.equal(shortMoney(43_100_000_000), '$43.1K')
  assert.equal(shortMoney(1_250_000_000_000n), '$1.2M')
  assert.equal(shortMoney(3n * 10n ** 15n), '$3.0B')
})

test('the page shows remaining and past times in short form', () => {
  assert.equal(timeLeft(0), 'ended')
  assert.equal(timeLeft(59), '00:59')
  assert.equal(timeLeft(3_599), '59:59')
  assert.equal(timeLeft(3_600), '1h 0m')
  assert.equal(timeLeft(86_399), '23h 59m')
  assert.equal(timeLeft(90_000), '1d 1h')
  assert.equal(countdown(-5), '00:00')
  assert.equal(countdown(900), '15:00')
  assert.equal(ago(5), 'now')
  assert.equal(ago(7_200), '2h ago')
})

test('an address is shortened to its first and last digits', () => {
  assert.equal(shortAddress('0x71bE63f3384f5fb98995898A86B02Fb2426c5788'), '0x71bE…5788')
})
