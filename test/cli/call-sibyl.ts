/** Runs the command `sibyl` in this process; returns its output and exit code. */

import { COMMANDS } from '#cli/commands.ts'
import { runSibyl } from '#cli/run.ts'

export type Said = { readonly code: number; readonly out: string; readonly err: string }

export async function callSibyl(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  { signal = new AbortController().signal, received = (_: string) => {} } = {},
): Promise<Said> {
  let out = ''
  let err = ''
  const code = await runSibyl(COMMANDS, args, {
    env: { SIBYL_KEYS_DIR: '/nonexistent', ...env },
    out(text) {
      out += text
      received(text)
    },
    err(text) {
      err += text
    },
    signal,
  })
  return { code, out, err }
}
