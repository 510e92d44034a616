/** A made-up report that fills every part of the page. */

import { Histogram } from '../../loadtest/histogram.ts'
import { readOptions } from '../../loadtest/options.ts'
import type { LoadReport } from '../../loadtest/report.ts'

const STAGES = ['parse', 'verify', 'queue', 'match', 'commit', 'answer'] as const

function latency() {
  const histogram = new Histogram()
  for (let at = 1; at <= 1_000; at++) histogram.recordMs(at / 10)
  return histogram.toJSON()
}

export function sampleReport(): LoadReport {
  const { out: _out, ...options } = readOptions(['--profile', 'smoke', '--seed', '1'], 0)
  const stages = STAGES.map((stage) => ({ stage, count: 500, meanMs: 1, p50Ms: 0.8, p99Ms: 4 }))
  const second = (at: number) => ({
    ...{
      second: at,
      due: 50,
      answered: 49,
      errors: 1,
      p50Ms: 2,
      p99Ms: 20,
      waiting: 1,
      sockets: 20,
    },
    ...{ messages: 100 * at, streamP99Ms: 5, serverCores: 0.4, testerBusy: 0.2 },
  })
  return {
    format: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    machine: '2 × a processor with a long name (arm64), 24 GiB, Node 22',
    commit: '0123abc',
    options,
    marketsUsed: 3,
    ended: '',
    funds: 'given to every trader',
    secondsRun: 10,
    rate: { planned: 50, answered: 49, held: true },
    kinds: (['place', 'cross', 'cancel', 'book'] as const).map((kind) => ({
      ...{ kind, planned: 1_000, answered: 1_000, fine: 990 },
      ...{ errors: { OVERLOADED: 10, INSUFFICIENT_ALLOWANCE: 3 }, latency: latency() },
    })),
    seconds: Array.from({ length: 10 }, (_, at) => second(at + 1)),
    stream: { sockets: 20, messages: 1_000, lags: 0, closed: 0, lag: latency() },
    server: {
      ...{ cpuSeconds: 4, cpuMsPerWrite: 1.2 },
      ...{ residentBytesBefore: 2 ** 28, residentBytesAfter: 2 ** 29 },
      stages,
      samples: [2, 4, 6, 8, 10].map((at) => ({ second: at, stages })),
    },
    tester: {
      ...{ lateness: latency(), cpuSeconds: 2, busyMax: 0.3, signedPerSecond: 900 },
      saturated: false,
    },
    truth: [
      { name: 'answers fit their questions', ok: true, detail: 'all of them' },
      { name: 'trades add up', ok: true, skipped: true, detail: '205 trades failed on chain' },
      {
        ...{ name: 'no trade failed on chain', ok: false },
        detail: `205 wrong: market 0: 205 trades; 0x${'ab'.repeat(32)}`,
      },
    ],
    passed: false,
  }
}
