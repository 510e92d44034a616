import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Address } from '#domain/ids.ts'
import { makeSpendingRelay } from '#services/settlement/thread/spending-relay.ts'
import type { ChargesFilter, SettlementCharge } from '#store/reads/settlement-charges.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Ten hours into a day. */
const NOW = 20_000 * DAY_MS + 10 * HOUR_MS
const CHAIN = 31_337
const eve = `0x${'e'.repeat(40)}` as Address
const sender = `0x${'5'.repeat(40)}` as Address

type Change = Partial<SettlementCharge>

/** Returns a journal with one transaction of one fill per minute, the last one now. */
function journalOf(count: number, change: (nonce: number) => Change = () => ({})) {
  const rows = Array.from({ length: count }, (_, nonce): SettlementCharge => {
    const atMs = NOW - (count - 1 - nonce) * 60_000
    const charges = [{ trader: eve, fills: 1, gas: 100, failedGas: 0 }]
    const times = { signedAtMs: atMs, finishedAtMs: atMs }
    return { nonce, isOpen: false, isUndecided: false, ...times, charges, ...change(nonce) }
  })
  const asked: ChargesFilter[] = []
  const read = async (filter: ChargesFilter): Promise<SettlementCharge[]> => {
    asked.push(filter)
    const { above, below, except, limit } = filter
    const fits = rows.filter(
      ({ nonce }) => nonce > above && nonce < below && !except.includes(nonce),
    )
    return fits.reverse().slice(0, limit)
  }
  return { rows, asked, read }
}

function relayOf(read: ReturnType<typeof journalOf>['read']) {
  const told: { day: number; spending: { fills: number }[] }[] = []
  const tell = (_: string, message: (typeof told)[number]): void => void told.push(message)
  const limits = {
    fillsPerDay: 1_000,
    gasPerDay: 0,
    failedGasPerDay: 0,
    exempt: new Set<Address>(),
  }
  const relay = makeSpendingRelay({ markets: [{ tell } as never], limits, read })
  relay.follow({ chainId: CHAIN, sender })
  return { relay, told, fills: () => told.at(-1)?.spending[0]?.fills }
}

test('the first read of settlement costs covers all transactions of the current day, and no earlier ones', async () => {
  // It is 10:00, and there is one transaction per minute. So 601 transactions are from today, including the one at
  // midnight.
  const { asked, read } = journalOf(3 * 1_440)
  const { relay, fills } = relayOf(read)
  await relay.tick(NOW)
  assert.equal(fills(), 601)
  assert(asked.length < 15, `${asked.length} pages were read`)
  assert(asked.every(({ except }) => except.length === 0))
})

test('each read of settlement costs continues after the last transaction that the previous read counted', async () => {
  const { rows, asked, read } = journalOf(10)
  const { relay, told, fills } = relayOf(read)
  await relay.tick(NOW)
  assert.equal(fills(), 10)
  await relay.tick(NOW)
  assert.equal(asked.at(-1)?.above, 9)
  assert.equal(told.length, 1, 'nothing has changed')
  rows.push({ ...rows[9]!, nonce: 10 })
  await relay.tick(NOW)
  assert.equal(fills(), 11)
})

test('the gas cost of a transaction is counted once, after the transaction has ended', async () => {
  const { rows, read } = journalOf(10, (nonce) =>
    nonce === 4 ? { isOpen: true, charges: [] } : {},
  )
  const { relay, fills } = relayOf(read)
  await relay.tick(NOW)
  await relay.tick(NOW)
  assert.equal(fills(), 9)
  rows[4] = { ...rows[4]!, isOpen: false, charges: rows[3]!.charges }
  await relay.tick(NOW)
  await relay.tick(NOW)
  assert.equal(fills(), 10)
})

test('the cost of a transaction is counted after ten seconds even if the database lists its trades as undecided', async () => {
  const { read } = journalOf(1, () => ({ isUndecided: true }))
  const { relay, fills } = relayOf(read)
  await relay.tick(NOW + 9_999)
  assert.equal(fills(), undefined)
  await relay.tick(NOW + 10_000)
  assert.equal(fills(), 1)
})

test('settlement costs start at zero each day, and a read after a failed read includes the missed costs', async () => {
  const { rows, read } = journalOf(3)
  let isAway = false
  const { relay, told, fills } = relayOf(async (filter) => {
    if (isAway) throw new Error('the database is away')
    return read(filter)
  })
  await relay.tick(NOW)
  assert.equal(fills(), 3)
  isAway = true
  await assert.rejects(relay.tick(NOW + DAY_MS))
  isAway = false
  const finishedAtMs = NOW + DAY_MS
  rows.push({ ...rows[2]!, nonce: 3, signedAtMs: finishedAtMs, finishedAtMs })
  await relay.tick(NOW + DAY_MS)
  assert.deepEqual([told.at(-1)?.day, fills()], [20_001, 1])
})

test('if traders have no daily budgets, settlement does not read its costs from the journal', async () => {
  const { asked, read } = journalOf(3)
  const limits = { fillsPerDay: 0, gasPerDay: 0, failedGasPerDay: 0, exempt: new Set<Address>() }
  const relay = makeSpendingRelay({ markets: [], limits, read })
  relay.follow({ chainId: CHAIN, sender })
  await relay.tick(NOW)
  assert.deepEqual(asked, [])
  assert.deepEqual(relay.spent(), [])
})
