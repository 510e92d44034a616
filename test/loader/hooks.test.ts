import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { ROOT } from '../support/imports.ts'

/** Runs this code with the module loader of the exchange, and returns the output. */
function outputOf(code: string): string {
  const flags = ['--import', './src/loader/hooks.js', '--input-type=module', '-e', code]
  return execFileSync(process.execPath, flags, { cwd: ROOT, encoding: 'utf8' })
}

test('Node loads the code of fetch at the first call of fetch, not at the import of node:http', () => {
  const said = outputOf(`
    import { createServer } from 'node:http'
    const isLoaded = () => process.moduleLoadList.some((name) => name.endsWith('undici/undici'))
    const before = isLoaded()
    const answer = await fetch('data:text/plain,yes')
    console.log(typeof createServer, before, await answer.text(), isLoaded(), typeof WebSocket)
  `)
  assert.equal(said, 'function false yes true function\n')
})
