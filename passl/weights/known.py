# SPDX-License-Identifier: Apache-2.0
"""Cards of published ImageNet-1k weights.

top-1 is timm's evaluation of each weight under the settings of the row (results-imagenet.csv of
timm 1.0.29); the last two columns are the authors' own figure and the crop they used, where it differs.
Names are timm's, ``model.tag``.  Models that timm does not have: CvT and T2T-ViT by PaddleViT's evaluation of the
converted weights, LV-ViT by the authors' own.
"""

from __future__ import annotations

import functools

from passl.utils.errors import CheckpointError, did_you_mean

from .card import CLIP, IMAGENET, INCEPTION, Card

# name, img_size, crop fraction, interpolation (c bicubic, l bilinear), top-1, official top-1 and crop
_TABLE = """
vit_base_patch16_224.augreg2_in21k_ft_in1k           224 0.9   c  85.11  -
vit_base_patch16_224.augreg_in1k                     224 0.9   c  79.15  -
vit_base_patch16_224.augreg_in21k_ft_in1k            224 0.9   c  84.53  -
vit_base_patch16_224.orig_in21k_ft_in1k              224 0.9   c  81.78  -
vit_base_patch16_224.sam_in1k                        224 0.9   c  80.25  -
vit_base_patch16_384.augreg_in1k                     384 1     c  81.10  -
vit_base_patch16_384.augreg_in21k_ft_in1k            384 1     c  86.01  -
vit_base_patch16_384.orig_in21k_ft_in1k              384 1     c  84.21  -
vit_base_patch32_224.augreg_in1k                     224 0.9   c  74.91  -
vit_base_patch32_224.augreg_in21k_ft_in1k            224 0.9   c  80.73  -
vit_base_patch32_224.sam_in1k                        224 0.9   c  73.70  -
vit_base_patch32_384.augreg_in1k                     384 1     c  78.75  -
vit_base_patch32_384.augreg_in21k_ft_in1k            384 1     c  83.36  -
vit_base_patch8_224.augreg2_in21k_ft_in1k            224 0.9   c  86.25  -
vit_base_patch8_224.augreg_in21k_ft_in1k             224 0.9   c  85.84  -
vit_large_patch16_224.augreg_in21k_ft_in1k           224 0.9   c  85.86  -
vit_large_patch16_384.augreg_in21k_ft_in1k           384 1     c  87.10  -
vit_large_patch32_384.orig_in21k_ft_in1k             384 1     c  81.51  -
vit_small_patch16_224.augreg_in1k                    224 0.9   c  78.84  -
vit_small_patch16_224.augreg_in21k_ft_in1k           224 0.9   c  81.40  -
vit_small_patch16_384.augreg_in1k                    384 1     c  81.13  -
vit_small_patch16_384.augreg_in21k_ft_in1k           384 1     c  83.81  -
vit_small_patch32_224.augreg_in21k_ft_in1k           224 0.9   c  76.01  -
vit_small_patch32_384.augreg_in21k_ft_in1k           384 1     c  80.48  -
vit_tiny_patch16_224.augreg_in21k_ft_in1k            224 0.9   c  75.45  -
vit_tiny_patch16_384.augreg_in21k_ft_in1k            384 1     c  78.44  -
vit_base_patch16_clip_224.laion2b_ft_in12k_in1k      224 0.95  c  86.20  -
vit_base_patch16_clip_224.laion2b_ft_in1k            224 1     c  85.49  -
vit_base_patch16_clip_224.openai_ft_in12k_in1k       224 0.95  c  85.95  -
vit_base_patch16_clip_224.openai_ft_in1k             224 0.9   c  85.28  -
vit_base_patch16_clip_384.laion2b_ft_in12k_in1k      384 1     c  87.21  -
vit_base_patch16_clip_384.laion2b_ft_in1k            384 1     c  86.64  -
vit_base_patch16_clip_384.openai_ft_in12k_in1k       384 0.95  c  87.03  -
vit_base_patch16_clip_384.openai_ft_in1k             384 1     c  86.21  -
vit_base_patch32_clip_224.laion2b_ft_in12k_in1k      224 0.9   c  83.30  -
vit_base_patch32_clip_224.laion2b_ft_in1k            224 0.9   c  82.61  -
vit_base_patch32_clip_224.openai_ft_in1k             224 0.9   c  81.94  -
vit_base_patch32_clip_384.laion2b_ft_in12k_in1k      384 1     c  85.40  -
vit_base_patch32_clip_384.openai_ft_in12k_in1k       384 0.95  c  85.22  -
vit_huge_patch14_clip_224.laion2b_ft_in12k_in1k      224 1     c  88.29  -
vit_huge_patch14_clip_224.laion2b_ft_in1k            224 1     c  87.61  -
vit_huge_patch14_clip_336.laion2b_ft_in12k_in1k      336 1     c  88.63  -
vit_large_patch14_clip_224.laion2b_ft_in12k_in1k     224 1     c  87.90  -
vit_large_patch14_clip_224.laion2b_ft_in1k           224 1     c  87.29  -
vit_large_patch14_clip_224.openai_ft_in12k_in1k      224 1     c  88.16  -
vit_large_patch14_clip_224.openai_ft_in1k            224 1     c  87.86  -
vit_large_patch14_clip_336.laion2b_ft_in12k_in1k     336 1     c  88.19  -
vit_large_patch14_clip_336.laion2b_ft_in1k           336 1     c  87.87  -
vit_large_patch14_clip_336.openai_ft_in12k_in1k      336 1     c  88.26  -
deit_base_distilled_patch16_224.fb_in1k              224 0.9   c  83.38  83.4 0.875
deit_base_distilled_patch16_384.fb_in1k              384 1     c  85.44  85.2 0.875
deit_base_patch16_224.fb_in1k                        224 0.9   c  81.98  81.8 0.875
deit_base_patch16_384.fb_in1k                        384 1     c  83.11  82.9 0.875
deit_small_distilled_patch16_224.fb_in1k             224 0.9   c  81.20  81.2 0.875
deit_small_patch16_224.fb_in1k                       224 0.9   c  79.86  79.9 0.875
deit_tiny_distilled_patch16_224.fb_in1k              224 0.9   c  74.54  74.5 0.875
deit_tiny_patch16_224.fb_in1k                        224 0.9   c  72.19  72.2 0.875
deit3_base_patch16_224.fb_in1k                       224 0.9   c  83.80  83.8 1
deit3_base_patch16_224.fb_in22k_ft_in1k              224 1     c  85.73  -
deit3_base_patch16_384.fb_in1k                       384 1     c  85.09  -
deit3_base_patch16_384.fb_in22k_ft_in1k              384 1     c  86.74  -
deit3_huge_patch14_224.fb_in1k                       224 0.9   c  85.20  85.2 1
deit3_huge_patch14_224.fb_in22k_ft_in1k              224 1     c  87.18  -
deit3_large_patch16_224.fb_in1k                      224 0.9   c  84.77  84.9 1
deit3_large_patch16_224.fb_in22k_ft_in1k             224 1     c  86.99  -
deit3_large_patch16_384.fb_in1k                      384 1     c  85.82  -
deit3_large_patch16_384.fb_in22k_ft_in1k             384 1     c  87.74  -
deit3_medium_patch16_224.fb_in1k                     224 0.9   c  83.09  83.0 1
deit3_medium_patch16_224.fb_in22k_ft_in1k            224 1     c  84.55  -
deit3_small_patch16_224.fb_in1k                      224 0.9   c  81.38  81.4 1
deit3_small_patch16_224.fb_in22k_ft_in1k             224 1     c  83.08  -
deit3_small_patch16_384.fb_in1k                      384 1     c  83.43  -
deit3_small_patch16_384.fb_in22k_ft_in1k             384 1     c  84.85  -
cait_m36_384.fb_dist_in1k                            384 1     c  86.06  -
cait_m48_448.fb_dist_in1k                            448 1     c  86.48  -
cait_s24_224.fb_dist_in1k                            224 1     c  83.48  -
cait_s24_384.fb_dist_in1k                            384 1     c  85.05  -
cait_s36_384.fb_dist_in1k                            384 1     c  85.46  -
cait_xs24_384.fb_dist_in1k                           384 1     c  84.06  -
cait_xxs24_224.fb_dist_in1k                          224 1     c  78.40  -
cait_xxs24_384.fb_dist_in1k                          384 1     c  80.95  -
cait_xxs36_224.fb_dist_in1k                          224 1     c  79.75  -
cait_xxs36_384.fb_dist_in1k                          384 1     c  82.20  -
xcit_large_24_p16_224.fb_dist_in1k                   224 1     c  84.94  -
xcit_large_24_p16_224.fb_in1k                        224 1     c  82.89  -
xcit_large_24_p16_384.fb_dist_in1k                   384 1     c  85.78  -
xcit_large_24_p8_224.fb_dist_in1k                    224 1     c  85.40  -
xcit_large_24_p8_224.fb_in1k                         224 1     c  84.38  -
xcit_large_24_p8_384.fb_dist_in1k                    384 1     c  86.02  -
xcit_medium_24_p16_224.fb_dist_in1k                  224 1     c  84.29  -
xcit_medium_24_p16_224.fb_in1k                       224 1     c  82.63  -
xcit_medium_24_p16_384.fb_dist_in1k                  384 1     c  85.43  -
xcit_medium_24_p8_224.fb_dist_in1k                   224 1     c  85.08  -
xcit_medium_24_p8_224.fb_in1k                        224 1     c  83.74  -
xcit_medium_24_p8_384.fb_dist_in1k                   384 1     c  85.84  -
xcit_nano_12_p16_224.fb_dist_in1k                    224 1     c  72.32  -
xcit_nano_12_p16_224.fb_in1k                         224 1     c  69.98  -
xcit_nano_12_p16_384.fb_dist_in1k                    384 1     c  75.46  -
xcit_nano_12_p8_224.fb_dist_in1k                     224 1     c  76.33  -
xcit_nano_12_p8_224.fb_in1k                          224 1     c  73.90  -
xcit_nano_12_p8_384.fb_dist_in1k                     384 1     c  77.81  -
xcit_small_12_p16_224.fb_dist_in1k                   224 1     c  83.35  -
xcit_small_12_p16_224.fb_in1k                        224 1     c  81.98  -
xcit_small_12_p16_384.fb_dist_in1k                   384 1     c  84.73  -
xcit_small_12_p8_224.fb_dist_in1k                    224 1     c  84.25  -
xcit_small_12_p8_224.fb_in1k                         224 1     c  83.35  -
xcit_small_12_p8_384.fb_dist_in1k                    384 1     c  85.07  -
xcit_small_24_p16_224.fb_dist_in1k                   224 1     c  83.88  -
xcit_small_24_p16_224.fb_in1k                        224 1     c  82.59  -
xcit_small_24_p16_384.fb_dist_in1k                   384 1     c  85.10  -
xcit_small_24_p8_224.fb_dist_in1k                    224 1     c  84.88  -
xcit_small_24_p8_224.fb_in1k                         224 1     c  83.85  -
xcit_small_24_p8_384.fb_dist_in1k                    384 1     c  85.58  -
xcit_tiny_12_p16_224.fb_dist_in1k                    224 1     c  78.57  -
xcit_tiny_12_p16_224.fb_in1k                         224 1     c  77.12  -
xcit_tiny_12_p16_384.fb_dist_in1k                    384 1     c  80.95  -
xcit_tiny_12_p8_224.fb_dist_in1k                     224 1     c  81.21  -
xcit_tiny_12_p8_224.fb_in1k                          224 1     c  79.71  -
xcit_tiny_12_p8_384.fb_dist_in1k                     384 1     c  82.39  -
xcit_tiny_24_p16_224.fb_dist_in1k                    224 1     c  80.46  -
xcit_tiny_24_p16_224.fb_in1k                         224 1     c  79.47  -
xcit_tiny_24_p16_384.fb_dist_in1k                    384 1     c  82.58  -
xcit_tiny_24_p8_224.fb_dist_in1k                     224 1     c  82.58  -
xcit_tiny_24_p8_224.fb_in1k                          224 1     c  81.89  -
xcit_tiny_24_p8_384.fb_dist_in1k                     384 1     c  83.78  -
cvt_13_224.ms_in1k                                   224 0.875 c  81.59  -
cvt_13_384.ms_in1k                                   384 1     c  83.00  -
cvt_13_384.ms_in22k_ft_in1k                          384 1     c  83.26  -
cvt_21_224.ms_in1k                                   224 0.875 c  82.46  -
cvt_21_384.ms_in1k                                   384 1     c  83.27  -
cvt_21_384.ms_in22k_ft_in1k                          384 1     c  84.91  -
cvt_w24_384.ms_in22k_ft_in1k                         384 1     c  87.58  -
t2t_vit_7_224.yitu_in1k                              224 0.9   c  71.68  -
t2t_vit_10_224.yitu_in1k                             224 0.9   c  75.15  -
t2t_vit_12_224.yitu_in1k                             224 0.9   c  76.48  -
t2t_vit_14_224.yitu_in1k                             224 0.9   c  81.50  -
t2t_vit_14_384.yitu_in1k                             384 1     c  83.34  -
t2t_vit_19_224.yitu_in1k                             224 0.9   c  81.93  -
t2t_vit_24_224.yitu_in1k                             224 0.9   c  82.28  -
t2t_vit_t_14_224.yitu_in1k                           224 0.9   c  81.69  -
t2t_vit_t_19_224.yitu_in1k                           224 0.9   c  82.44  -
t2t_vit_t_24_224.yitu_in1k                           224 0.9   c  82.55  -
lvvit_t_224.tlt_in1k                                 224 0.9   c  79.1  -
lvvit_s_224.tlt_in1k                                 224 0.9   c  83.3  -
lvvit_s_384.tlt_in1k                                 384 1     c  84.4  -
lvvit_m_224.tlt_in1k                                 224 1     c  84.0  -
lvvit_m_384.tlt_in1k                                 384 1     c  85.4  -
lvvit_m_448.tlt_in1k                                 448 1     c  85.5  -
lvvit_l_448.tlt_in1k                                 448 1     c  86.2  -
lvvit_l_512.tlt_in1k                                 512 1     c  86.4  -
swin_base_patch4_window12_384.ms_in1k                384 1     c  84.48  -
swin_base_patch4_window12_384.ms_in22k_ft_in1k       384 1     c  86.44  -
swin_base_patch4_window7_224.ms_in1k                 224 0.9   c  83.60  83.5 0.875
swin_base_patch4_window7_224.ms_in22k_ft_in1k        224 0.9   c  85.28  85.2 0.875
swin_large_patch4_window12_384.ms_in22k_ft_in1k      384 1     c  87.14  -
swin_large_patch4_window7_224.ms_in22k_ft_in1k       224 0.9   c  86.32  86.3 0.875
swin_s3_base_224.ms_in1k                             224 0.9   c  83.92  -
swin_s3_small_224.ms_in1k                            224 0.9   c  83.78  -
swin_s3_tiny_224.ms_in1k                             224 0.9   c  82.13  -
swin_small_patch4_window7_224.ms_in1k                224 0.9   c  83.23  83.2 0.875
swin_small_patch4_window7_224.ms_in22k_ft_in1k       224 0.9   c  83.33  83.2 0.875
swin_tiny_patch4_window7_224.ms_in1k                 224 0.9   c  81.39  81.2 0.875
swin_tiny_patch4_window7_224.ms_in22k_ft_in1k        224 0.9   c  80.97  80.9 0.875
swinv2_base_window12to16_192to256.ms_in22k_ft_in1k   256 0.9   c  86.27  -
swinv2_base_window12to24_192to384.ms_in22k_ft_in1k   384 1     c  87.14  -
swinv2_base_window16_256.ms_in1k                     256 0.9   c  84.61  -
swinv2_base_window8_256.ms_in1k                      256 0.9   c  84.25  -
swinv2_large_window12to16_192to256.ms_in22k_ft_in1k  256 0.9   c  86.93  -
swinv2_large_window12to24_192to384.ms_in22k_ft_in1k  384 1     c  87.47  -
swinv2_small_window16_256.ms_in1k                    256 0.9   c  84.22  -
swinv2_small_window8_256.ms_in1k                     256 0.9   c  83.84  -
swinv2_tiny_window16_256.ms_in1k                     256 0.9   c  82.83  -
swinv2_tiny_window8_256.ms_in1k                      256 0.9   c  81.82  -
beit_base_patch16_224.in22k_ft_in22k_in1k            224 0.9   c  85.24  -
beit_base_patch16_384.in22k_ft_in22k_in1k            384 1     c  86.81  -
beit_large_patch16_224.in22k_ft_in22k_in1k           224 0.9   c  87.49  -
beit_large_patch16_384.in22k_ft_in22k_in1k           384 1     c  88.38  -
beit_large_patch16_512.in22k_ft_in22k_in1k           512 1     c  88.58  -
beitv2_base_patch16_224.in1k_ft_in1k                 224 0.9   c  85.60  -
beitv2_base_patch16_224.in1k_ft_in22k_in1k           224 0.9   c  86.49  -
beitv2_large_patch16_224.in1k_ft_in1k                224 0.95  c  87.41  -
beitv2_large_patch16_224.in1k_ft_in22k_in1k          224 0.95  c  88.41  -
resnet101.a1_in1k                                    224 0.95  c  81.49  -
resnet101.a2_in1k                                    224 0.95  c  81.34  -
resnet101.a3_in1k                                    224 0.95  c  79.84  -
resnet101.tv2_in1k                                   224 0.965 l  81.91  -
resnet101.tv_in1k                                    224 0.875 l  77.40  -
resnet152.a1_in1k                                    224 0.95  c  82.00  -
resnet152.a2_in1k                                    224 0.95  c  81.76  -
resnet152.a3_in1k                                    224 0.95  c  80.55  -
resnet152.tv2_in1k                                   224 0.965 l  82.29  -
resnet152.tv_in1k                                    224 0.875 l  78.33  -
resnet18.a1_in1k                                     224 0.95  c  71.50  -
resnet18.a2_in1k                                     224 0.95  c  70.63  -
resnet18.a3_in1k                                     224 0.95  c  68.25  -
resnet18.tv_in1k                                     224 0.875 l  69.75  -
resnet34.a1_in1k                                     224 0.95  c  76.42  -
resnet34.a2_in1k                                     224 0.95  c  75.52  -
resnet34.a3_in1k                                     224 0.95  c  73.00  -
resnet34.tv_in1k                                     224 0.875 l  73.30  -
resnet50.a1_in1k                                     224 0.95  c  80.38  -
resnet50.a2_in1k                                     224 0.95  c  79.83  -
resnet50.a3_in1k                                     224 0.95  c  78.05  -
resnet50.tv2_in1k                                    224 0.965 l  80.85  -
resnet50.tv_in1k                                     224 0.875 l  76.16  -
mixer_b16_224.goog_in21k_ft_in1k                     224 0.875 c  76.62  -
mixer_b16_224.miil_in21k_ft_in1k                     224 0.875 l  82.31  -
mixer_l16_224.goog_in21k_ft_in1k                     224 0.875 c  72.08  -
resmlp_12_224.fb_distilled_in1k                      224 0.875 c  77.95  -
resmlp_12_224.fb_in1k                                224 0.875 c  76.66  -
resmlp_24_224.fb_distilled_in1k                      224 0.875 c  80.77  -
resmlp_24_224.fb_in1k                                224 0.875 c  79.38  -
resmlp_36_224.fb_distilled_in1k                      224 0.875 c  81.15  -
resmlp_36_224.fb_in1k                                224 0.875 c  79.77  -
resmlp_big_24_224.fb_distilled_in1k                  224 0.875 c  83.59  -
resmlp_big_24_224.fb_in1k                            224 0.875 c  81.03  -
resmlp_big_24_224.fb_in22k_ft_in1k                   224 0.875 c  84.41  -
gmlp_s16_224.ra3_in1k                                224 0.875 c  79.65  -
convnext_base.fb_in1k                                224 0.875 c  83.84  -
convnext_base.fb_in22k_ft_in1k                       224 0.875 c  85.81  -
convnext_base.fb_in22k_ft_in1k_384                   384 1     c  86.83  -
convnext_large.fb_in1k                               224 0.875 c  84.30  -
convnext_large.fb_in22k_ft_in1k                      224 0.875 c  86.61  -
convnext_large.fb_in22k_ft_in1k_384                  384 1     c  87.46  -
convnext_small.fb_in1k                               224 0.875 c  83.14  -
convnext_small.fb_in22k_ft_in1k                      224 0.875 c  84.58  -
convnext_small.fb_in22k_ft_in1k_384                  384 1     c  85.75  -
convnext_tiny.fb_in1k                                224 0.875 c  82.07  -
convnext_tiny.fb_in22k_ft_in1k                       224 0.875 c  82.90  -
convnext_tiny.fb_in22k_ft_in1k_384                   384 1     c  84.10  -
convnext_xlarge.fb_in22k_ft_in1k                     224 0.875 c  86.97  -
convnext_xlarge.fb_in22k_ft_in1k_384                 384 1     c  87.76  -
convnextv2_atto.fcmae_ft_in1k                        224 0.875 c  76.64  -
convnextv2_base.fcmae_ft_in1k                        224 0.875 c  84.89  -
convnextv2_base.fcmae_ft_in22k_in1k                  224 0.875 c  86.75  -
convnextv2_base.fcmae_ft_in22k_in1k_384              384 1     c  87.64  -
convnextv2_femto.fcmae_ft_in1k                       224 0.875 c  78.48  -
convnextv2_huge.fcmae_ft_in1k                        224 0.875 c  86.26  -
convnextv2_huge.fcmae_ft_in22k_in1k_384              384 1     c  88.67  -
convnextv2_huge.fcmae_ft_in22k_in1k_512              512 1     c  88.86  -
convnextv2_large.fcmae_ft_in1k                       224 0.875 c  85.76  -
convnextv2_large.fcmae_ft_in22k_in1k                 224 0.875 c  87.27  -
convnextv2_large.fcmae_ft_in22k_in1k_384             384 1     c  88.18  -
convnextv2_nano.fcmae_ft_in1k                        224 0.875 c  81.86  -
convnextv2_nano.fcmae_ft_in22k_in1k                  224 0.875 c  82.04  -
convnextv2_nano.fcmae_ft_in22k_in1k_384              384 1     c  83.37  -
convnextv2_pico.fcmae_ft_in1k                        224 0.875 c  80.30  -
convnextv2_tiny.fcmae_ft_in1k                        224 0.875 c  82.95  -
convnextv2_tiny.fcmae_ft_in22k_in1k                  224 0.875 c  83.90  -
convnextv2_tiny.fcmae_ft_in22k_in1k_384              384 1     c  85.10  -
convvit_base_patch16.convmae_ft_in1k                 224 0.875 c  84.98  -
levit_128.fb_dist_in1k                               224 0.9   c  78.49  78.6 0.875
levit_128s.fb_dist_in1k                              224 0.9   c  76.52  76.6 0.875
levit_192.fb_dist_in1k                               224 0.9   c  79.86  80.0 0.875
levit_256.fb_dist_in1k                               224 0.9   c  81.51  81.6 0.875
levit_384.fb_dist_in1k                               224 0.9   c  82.60  82.6 0.875
pvt_v2_b0.in1k                                       224 0.9   c  70.65  70.5 0.875
pvt_v2_b1.in1k                                       224 0.9   c  78.70  78.7 0.875
pvt_v2_b2.in1k                                       224 0.9   c  82.06  82.0 0.875
pvt_v2_b2_li.in1k                                    224 0.9   c  82.20  82.1 0.875
pvt_v2_b3.in1k                                       224 0.9   c  83.12  83.1 0.875
pvt_v2_b4.in1k                                       224 0.9   c  83.71  83.6 0.875
pvt_v2_b5.in1k                                       224 0.9   c  83.76  83.8 0.875
"""

_SOURCES = {
    "vit": "Google, https://github.com/google-research/vision_transformer",
    "deit": "Meta, https://github.com/facebookresearch/deit",
    "deit3": "Meta, https://github.com/facebookresearch/deit",
    "cait": "Meta, https://github.com/facebookresearch/deit",
    "xcit": "Meta, https://github.com/facebookresearch/xcit",
    "cvt": "Microsoft, https://github.com/microsoft/CvT",
    "t2t": "YITU, https://github.com/yitu-opensource/T2T-ViT",
    "lvvit": "https://github.com/zihangJiang/TokenLabeling",
    "levit": "Meta, https://github.com/facebookresearch/LeViT",
    "mixer": "Google, https://github.com/google-research/vision_transformer",
    "resmlp": "Meta, https://github.com/facebookresearch/deit",
    "gmlp": "timm, https://github.com/huggingface/pytorch-image-models",
    "convnext": "Meta, https://github.com/facebookresearch/ConvNeXt",
    "convvit": "the authors, https://github.com/Alpha-VL/ConvMAE",
    "convnextv2": "Meta, https://github.com/facebookresearch/ConvNeXt-V2",
    "swin": "Microsoft, https://github.com/microsoft/Swin-Transformer, S3: https://github.com/microsoft/Cream",
    "swinv2": "Microsoft, https://github.com/microsoft/Swin-Transformer",
    "beit": "Microsoft, https://github.com/microsoft/unilm",
    "beitv2": "Microsoft, https://github.com/microsoft/unilm",
    "pvt": "the authors, https://github.com/whai362/PVT",
    "miil": "Alibaba, https://github.com/Alibaba-MIIL/ImageNet21K",
    "tv": "torchvision, https://github.com/pytorch/vision",
    "tv2": "torchvision, https://github.com/pytorch/vision",
    "laion2b": "timm, fine-tuned from LAION's weights, https://github.com/mlfoundations/open_clip",
    "openai": "timm, fine-tuned from OpenAI's weights, https://github.com/openai/CLIP",
    "a1": "timm, ResNet strikes back, https://arxiv.org/abs/2110.00476",
    "a2": "timm, ResNet strikes back, https://arxiv.org/abs/2110.00476",
    "a3": "timm, ResNet strikes back, https://arxiv.org/abs/2110.00476",
}


# by model and first word of the tag, by that word, or by the first word of the model, where it is not ImageNet's
_NORMALISATION = {
    "vit": INCEPTION,
    "beit": INCEPTION,
    "mixer": INCEPTION,
    "gmlp": INCEPTION,
    "miil": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "laion2b": CLIP,
    "openai": CLIP,
    "vit_large_patch14_clip.laion2b": INCEPTION,
}

_LARGE_EPSILON = ("resnet", "swin", "cvt", "t2t", "lvvit", "levit")  # families whose norms have 1e-5 instead of 1e-6


@functools.cache
def known_cards() -> dict[str, Card]:
    """Every known card by the name of its weights."""
    cards = {}
    for line in _TABLE.split("\n")[1:-1]:
        name, size, crop, interpolation, top1, *official = line.split()
        model, tag = name.split(".")
        family, author = model.split("_")[0], tag.split("_")[0]
        keys = (f"{model.rpartition('_')[0]}.{author}", author, family)
        mean, std = next((_NORMALISATION[key] for key in keys if key in _NORMALISATION), IMAGENET)
        cards[name] = Card(
            name=name,
            model=model,
            img_size=int(size),
            crop_fraction=float(crop),
            interpolation={"c": "bicubic", "l": "bilinear"}[interpolation],
            mean=mean,
            std=std,
            norm_eps=1e-5 if family.startswith(_LARGE_EPSILON) or "_clip_" in model else 1e-6,
            top1=float(top1),
            official=dict(zip(("top1", "crop_fraction"), map(float, official))) if len(official) == 2 else None,
            source=_SOURCES.get(author) or _SOURCES[family],
        )
    return cards


def known_card(name: str) -> Card:
    """The card of the weights ``name`` (``model.tag``), or of a model that has only one.

    Raises:
        CheckpointError: unknown name, or a model with several weights; names the choices.
    """
    cards = known_cards()
    matches = [card for key, card in cards.items() if name in (key, card.model)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise CheckpointError(f"'{name}' has several weights, name one: {', '.join(card.name for card in matches)}")
    raise CheckpointError(f"no known weights are called '{name}'{did_you_mean(name, cards)}")
