/**
 * `npm run test:repeat -- [--times 5] [--burn 2] [--fast] [files or folders]`: runs the tests `--times` times, beside
 * `--burn` busy processes. Lists every test that ever failed, how often, and the seeds to run it again with. Exits with
 * 1 if a test failed.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { parseArgs } from 'node:util'
import { endWithHelp } from './support/help.ts'
import { runTests } from './support/run-tests.ts'
import { selectTests } from './support/select-tests.ts'

/** Spins in short turns, so that the process notices when its input ends because its parent has exited. */
const BURNER = `
process.stdin.resume().on('end', () => process.exit())
const spin = () => {
  for (const endMs = performance.now() + 20; performance.now() < endMs; );
  setImmediate(spin)
}
spin()
`

endWithHelp(`Runs the tests again and again, and lists every one that ever failed, with its seeds.

  npm run test:repeat -- [options] [files or folders]

  --times <n>   how often (5)
  --burn <n>    beside so many busy processes (2)
  --fast        only what needs no chain, exchange, browser, other process or database server
`)
const { values, positionals } = parseArgs({
  options: {
    times: { type: 'string', default: '5' },
    burn: { type: 'string', default: '2' },
    fast: { type: 'boolean', default: false },
  },
  allowPositionals: true,
})
const times = Number(values.times)
const files = selectTests(positionals, values)
const burners: ChildProcess[] = Array.from({ length: Number(values.burn) }, () =>
  spawn(process.execPath, ['-e', BURNER], { stdio: ['pipe', 'ignore', 'inherit'] }),
)

const often = new Map<string, { count: number; seeds: Set<string> }>()
let rounds = 0
try {
  for (; rounds < times; ) {
    const { passed, failures } = await runTests(files, values)
    rounds++
    for (const { file, name, seeds } of failures) {
      const known = often.get(`${file}: ${name}`) ?? { count: 0, seeds: new Set() }
      often.set(`${file}: ${name}`, known)
      known.count++
      for (const seed of seeds) known.seeds.add(seed)
    }
    if (!passed) process.exitCode = 1
    process.stdout.write(`\nround ${rounds} of ${times}: ${failures.length} failed\n`)
  }
} finally {
  for (const burner of burners) burner.kill('SIGKILL')
}

process.stdout.write(`\n${rounds} rounds, ${often.size} tests failed in any of them\n`)
for (const [test, { count, seeds }] of often) {
  process.stdout.write(`${count} of ${rounds}  ${test}  ${[...seeds].join(', ')}\n`)
}
