// SPDX-License-Identifier: Apache-2.0
/* The smallest command: what exec costs is not hidden behind what a program does. */
int main(void)
{
	return 0;
}
