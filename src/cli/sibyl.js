#!/usr/bin/env node
/** `npx sibyl`: checks that the installed Node version can run the sources, and runs them. */

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 22 || (major === 22 && minor < 15)) {
  process.stderr.write(
    `sibyl: this needs Node 22.15 or newer and runs on ${process.versions.node}; npx sibyl in this repository brings its own\n`,
  )
  process.exitCode = 1
} else {
  await import('../loader/hooks.js')
  await import('./main.ts')
}
