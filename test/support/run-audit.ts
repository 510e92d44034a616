/** `npm run audit` as a process of its own. */

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export function runAudit(
  environment: Record<string, string>,
  args: readonly string[] = [],
): Promise<{ code: number; said: string }> {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const child = spawn(process.execPath, [...process.execArgv, 'src/audit.ts', ...args], {
    cwd: root,
    env: { PATH: process.env.PATH ?? '', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      said += chunk
    })
  }
  return new Promise((resolve) => {
    child.once('close', (code) => resolve({ code: code ?? -1, said }))
  })
}
