/**
 * Environment variables of the command `sibyl`. They belong to the trader, so an exchange on the same machine ignores
 * them.
 */

export const COMMAND_VARIABLES: ReadonlySet<string> = new Set([
  'SIBYL_URL',
  'SIBYL_TRADER_KEY',
  'SIBYL_KEYS_DIR',
])

export function commandEnvironment(): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries([...COMMAND_VARIABLES].map((name) => [name, process.env[name]]))
}
