/**
 * The entry point. It handles signals before it loads anything else, and runs the exchange until it is stopped. If the
 * exchange cannot run, it prints the reason in one line. The exit code is 0 after a stop (also during the start), 1
 * after a failure, and 2 for an unknown option. A hanging thread that cannot be ended would keep the process alive. In
 * that case the process kills itself after everything else was closed.
 *
 * This file is plain CommonJS, so that any version of Node can read it and report what is missing. For a `.ts` file,
 * Node 20 only prints a stack trace and runs nothing. `src/main.ts` is a link to this file.
 */

const NODE_MAJOR = 22
const HELP = `Runs the exchange until Ctrl-C or SIGTERM; every setting is an environment variable.

  npm start              with a local chain of its own, on http://127.0.0.1:8080, data in ./data
  npm run settings       shows the values in force, and starts nothing
  SIBYL_PORT=9000 npm start

README.md has the first steps, docs/operating.md what an operator needs.
`
/**
 * Milliseconds after the first signal during which further signals are ignored. Ctrl-C causes two signals: one from the
 * terminal and one from npm.
 */
const SAME_SIGNAL_MS = 1_000
/** Milliseconds from a failure until the process is killed if threads still run. */
const ENDS_WITHIN_MS = 10_000

/**
 * Only the operating-system user that runs the exchange can read its files: the mode is 0600 for files, and
 * 0700 for folders. Threads cannot set the umask, but inherit it.
 */
process.umask(0o077)

const stop = new AbortController()
let firstAtMs = 0
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    // A second signal kills the process with SIGKILL, because a normal exit would crash in threads that still
    // run.
    const again = stop.signal.aborted && performance.now() - firstAtMs > SAME_SIGNAL_MS
    if (again) process.kill(process.pid, 'SIGKILL')
    if (!stop.signal.aborted) firstAtMs = performance.now()
    stop.abort(signal)
  })
}

const wanted = process.argv.slice(2)
const unknown = wanted.find((each) => !['--help', '-h', '--settings'].includes(each))

/**
 * Runs the exchange. Errors that the operator can fix (settings, a used port, a missing database) are printed as one
 * line, without a stack.
 */
async function run() {
  // The native modules are built for one major version of Node.
  const { node } = process.versions
  if (Number(node.split('.')[0]) !== NODE_MAJOR) {
    throw new Error(
      `this is Node ${node}, but Sibyl needs Node ${NODE_MAJOR}: use npm start or npx node, which run that version`,
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

/** After a failure, kills the process if it has not ended within `ENDS_WITHIN_MS`. */
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
