/** Runs `npm run audit` or a similar command as a separate process. */

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

type Ended = { readonly code: number; readonly said: string }

export function runAudit(
  environment: Record<string, string>,
  args: readonly string[] = [],
): Promise<Ended> {
  return runMain('src/operator/audit-command.ts', environment, args)
}

export function runRebuild(environment: Record<string, string>): Promise<Ended> {
  return runMain('src/operator/rebuild-command.ts', environment, [])
}

function runMain(
  main: string,
  environment: Record<string, string>,
  args: readonly string[],
): Promise<Ended> {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const child = spawn(process.execPath, [...process.execArgv, main, ...args], {
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
