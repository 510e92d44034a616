// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// Arithmetic that reverts with the reasons of the original Conditional Tokens instead of Solidity
/// 0.8's panic codes. Integrators already decode these reasons.
library CheckedMath {
    function add(uint256 a, uint256 b) internal pure returns (uint256 sum) {
        unchecked {
            sum = a + b;
        }
        require(sum >= a, "SafeMath: addition overflow");
    }

    function sub(uint256 a, uint256 b) internal pure returns (uint256) {
        require(b <= a, "SafeMath: subtraction overflow");
        unchecked {
            return a - b;
        }
    }

    function mul(uint256 a, uint256 b) internal pure returns (uint256 product) {
        if (a == 0) return 0;
        unchecked {
            product = a * b;
        }
        require(product / a == b, "SafeMath: multiplication overflow");
    }
}
