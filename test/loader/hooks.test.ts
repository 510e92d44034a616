import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { ROOT } from '../support/imports.ts'

/** Returns the output of a program that is loaded like an exchange. */
function outputOf(code: string): string {
  const flags = ['--import', './src/loader/hooks.js', '--input-type=module', '-e', code]
  return execFileSync(process.execPath, flags, { cwd: ROOT, encoding: 'utf8' })
}

test('an import of node:http does not load the code of fetch until fetch is called', () => {
  const said = outputOf(`
    import { createServer } from 'node:http'
    const isLoaded = () => process.moduleLoadList.some((name) => name.endsWith('undici/undici'))
    const before = isLoaded()
    const answer = await fetch('data:text/plain,yes')
    console.log(typeof createServer, before, await answer.text(), isLoaded(), typeof WebSocket)
  `)
  assert.equal(said, 'function false yes true function\n')
})
