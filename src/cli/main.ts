/**
 * Starts one `sibyl` command: passes it the arguments, the output streams and a signal that aborts the command. If the
 * reader of the output closes the pipe, as in `sibyl markets | head`, the process ends without an error.
 */

import { commandEnvironment } from '#config/command-environment.ts'
import { COMMANDS } from './commands.ts'
import { runSibyl } from './run.ts'

const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    stop.abort()
  })
}

process.exitCode = await runSibyl(COMMANDS, process.argv.slice(2), {
  env: commandEnvironment(),
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  signal: stop.signal,
})
