/**
 * `npm run load -- smoke`: drives a running exchange like many traders, shows progress on a terminal, and
 * writes a report as JSON and as a page with plots. Exits with 1 if the exchange's answers are inconsistent
 * or the run did not finish, and with 2 if the command is wrong.
 */

import { writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { progress } from './bench.ts'
import { Histogram } from './histogram.ts'
import { type LoadOptions, readOptions, TargetError, UsageError, usage } from './options.ts'
import type { LoadReport, SecondReport } from './report.ts'
import { reportHtml } from './report-html.ts'

const args = process.argv.slice(2)
if (args.includes('--help') || args.includes('-h')) {
  process.stdout.write(`${usage()}\n`)
} else {
  try {
    await main(readOptions(args, Date.now()))
  } catch (error) {
    if (!(error instanceof UsageError || error instanceof TargetError)) throw error
    progress('')
    process.stderr.write(`load: ${error.message}\n`)
    process.exitCode = error instanceof UsageError ? 2 : 1
  }
}

async function main(options: LoadOptions): Promise<void> {
  // These modules are loaded only here, so that help and errors about options appear at once.
  const { makeFolder } = await import('#config/make-folder.ts')
  const { runLoad } = await import('./load.ts')
  try {
    makeFolder('--out', dirname(options.out))
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
  const stop = new AbortController()
  // The first signal ends the run with a report, a second one ends the process.
  process.once('SIGINT', () => stop.abort())
  process.once('SIGTERM', () => stop.abort())
  const report = await runLoad(options, {
    say: (text) => progress(text),
    second: (second, errors) => progress(lineOf(second, errors)),
    signal: stop.signal,
  })
  progress('')
  writeFileSync(`${options.out}.json`, `${JSON.stringify(report, null, 1)}\n`)
  writeFileSync(`${options.out}.html`, reportHtml(report))
  if (report.kinds.length > 0) process.stdout.write(`${summaryOf(report)}\n`)
  process.stdout.write(`report: ${options.out}.json, ${options.out}.html\n`)
  if (report.ended !== '') process.stderr.write(`load: ${report.ended}\n`)
  if (!report.passed) process.exitCode = 1
}

function lineOf(second: SecondReport, errors: ReadonlyMap<string, number>): string {
  const { due, answered, p50Ms, p99Ms, waiting, sockets, streamP99Ms } = second
  const codes = [...errors].map(([code, count]) => ` ${code} ${count}`).join('')
  return (
    `${second.second.toFixed(0)} s: ${answered.toFixed(0)}/s of ${due.toFixed(0)}/s, p50 ${p50Ms.toFixed(1)} ms, ` +
    `p99 ${p99Ms.toFixed(1)} ms, ${waiting} waiting, ${sockets} sockets ` +
    `(lag p99 ${streamP99Ms.toFixed(0)} ms)${codes === '' ? '' : `, errors:${codes}`}`
  )
}

function summaryOf(report: LoadReport): string {
  const lines: string[] = []
  const { rate, options, server, tester, stream } = report
  if (report.marketsUsed < options.markets) {
    lines.push(`${report.marketsUsed} markets, because the exchange has no more that are open`)
  }
  for (const { kind, planned, fine, errors, latency } of report.kinds) {
    const { count } = latency
    const at = Histogram.from(latency)
    const ms = (q: number): string => at.quantileMs(q).toFixed(1)
    const codes = Object.entries(errors).map(([code, times]) => `, ${code} ${times}`)
    lines.push(
      `${kind.padEnd(8)} ${fine} fine of ${planned}${codes.join('')}` +
        (count === 0
          ? ''
          : `; p50 ${ms(0.5)} ms, p99 ${ms(0.99)} ms, max ${at.maxMs.toFixed(1)} ms`),
    )
  }
  lines.push(
    `${rate.answered.toFixed(0)} of ${rate.planned.toFixed(0)} per second were answered in time` +
      (rate.held ? '' : ': the rate could not be held'),
    `server: ${server.cpuMsPerWrite.toFixed(3)} ms of CPU per write; ${stream.messages} messages ` +
      `to ${stream.sockets} sockets`,
  )
  if (tester.saturated) {
    lines.push('the tester itself was too slow: the latencies are partly its own')
  }
  for (const { name, ok, detail } of report.truth)
    lines.push(`${ok ? 'ok   ' : 'WRONG'} ${name}: ${detail}`)
  if (report.truth.length === 0) lines.push('WRONG nothing was compared')
  return lines.join('\n')
}
