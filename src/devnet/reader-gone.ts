/** `npm run settings | head`: who reads what a command prints may leave before its end. */

/** From now on the process ends quietly when nobody reads its output any more. */
export function endWithReader(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit()
  })
}
