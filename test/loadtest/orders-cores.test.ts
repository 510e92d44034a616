import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cpuSecondsIn } from '../../loadtest/order-flow.ts'
import { calculate, costsOf } from '../../loadtest/orders-cores.ts'

const METRICS = `# HELP process_cpu_seconds_total of the process
process_cpu_seconds_total 10
sibyl_thread_cpu_seconds_total{thread="front-0"} 1.5
sibyl_thread_cpu_seconds_total{of="x",thread="front-1"} 0.5
sibyl_thread_cpu_seconds_total{thread="market-0"} 1
sibyl_thread_cpu_seconds_total{thread="store"} 2
sibyl_thread_cpu_seconds_total{thread="prices"} 0.25
sibyl_verify_cpu_seconds_total{thread="front-0"} 1
sibyl_verify_cpu_seconds_total{of="x",thread="front-1"} 1.5
`

test('the benchmark reports the CPU time per order for each kind of thread', () => {
  const before = new Map([
    ['', 2],
    ['store', 1],
  ])
  assert.deepEqual(costsOf(before, cpuSecondsIn(METRICS), 10_000), {
    front: 200,
    market: 100,
    store: 100,
    other: 150,
    verify: 250,
  })
})

test('the estimated maximum order rate is limited by the CPU cores, or by the single store thread', () => {
  const costs = { verify: 100, front: 50, market: 25, store: 20, other: 5 }
  assert.deepEqual(calculate(costs, 4), { perSecond: 20_000, full: 'cores' })
  assert.deepEqual(calculate(costs, 16), { perSecond: 50_000, full: 'store' })
})
