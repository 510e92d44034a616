/**
 * The entry point: handles signals before anything else is loaded, runs the exchange until it is stopped, and prints in
 * one line why it could not run. Exits with 0 after a stop, also during the start, and with 1 after a failure. A
 * hanging thread that cannot be ended would keep the process alive: then the process kills itself after everything else
 * was closed.
 *
 * Plain CommonJS, so that any Node can read it and report what is missing: Node 20 refuses a `.ts` file with a stack
 * trace before it reads a line. `src/main.ts` is a link to this file.
 */

const NODE_MAJOR = 22
const HELP = `Runs the exchange until Ctrl-C or SIGTERM; every setting is an environment variable.

  npm start              with a local chain of its own, on http://127.0.0.1:8080, data in ./data
  npm run settings       shows the values in force, and starts nothing
  SIBYL_PORT=9000 npm start

README.md has the first steps, docs/operating.md what an operator needs.
`
/**
 * Ctrl-C reaches the process from the terminal and from npm. A second signal within this time counts as the same one.
 */
const SAME_SIGNAL_MS = 1_000
/** Time after a failed stop until remaining threads count as hanging. */
const ENDS_WITHIN_MS = 10_000

/** Files of the exchange are for its own user: 0600, folders 0700. Threads cannot set the mask but inherit it. */
process.umask(0o077)

const stop = new AbortController()
let firstAtMs = 0
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    // After a second signal the process is killed, because a normal exit would abort inside threads that are still
    // open.
    const again = stop.signal.aborted && performance.now() - firstAtMs > SAME_SIGNAL_MS
    if (again) process.kill(process.pid, 'SIGKILL')
    if (!stop.signal.aborted) firstAtMs = performance.now()
    stop.abort(signal)
  })
}

const wanted = process.argv.slice(2)
const unknown = wanted.find((each) => !['--help', '-h', '--settings'].includes(each))

/**
 * Errors that the operator can fix (settings, a used port, a missing database) are one line, without a stack.
 */
async function run() {
  // The native modules are built for one major version.
  const { node } = process.versions
  if (Number(node.split('.')[0]) !== NODE_MAJOR) {
    throw new Error(
      `this is Node ${node}, Sibyl needs Node ${NODE_MAJOR}: npm start and npx node bring it`,
    )
  }
  const { boot } = await import('./boot/boot.ts')
  await boot(stop)
}

/** @param {unknown} error */
function sayWhy(error) {
  process.stderr.write(`sibyl: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
}

/** Kills the process if something still runs some time after a failure. */
function endWhatHangs() {
  if (process.exitCode !== 1) return
  setTimeout(() => {
    process.stderr.write('sibyl: a thread hangs and cannot be ended, so the process is killed\n')
    process.kill(process.pid, 'SIGKILL')
  }, ENDS_WITHIN_MS).unref()
}

if (wanted.includes('--help') || wanted.includes('-h')) process.stdout.write(HELP)
else if (unknown !== undefined) {
  process.stderr.write(`sibyl: there is no option ${unknown}; npm start -- --help has all\n`)
  process.exitCode = 2
} else run().catch(sayWhy).then(endWhatHangs)
