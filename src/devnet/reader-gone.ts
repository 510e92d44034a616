/**
 * Handles the early end of a command's output: its reader may close the pipe, as in `npm run settings |
 * head`.
 */

/** Ends the process quietly when its output no longer has a reader. */
export function endWithReader(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit()
  })
}
